// SPDX-License-Identifier: Apache-2.0
// LaneDirectory: a run's dictionary as the texts that Parquet rows carry. Entities are read once; a part made later gets a new
// directory.
//
// Thread rule: one thread.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "daemon/pipeline/table_reader.h"
#include "storage/parquet/table_file.h"

namespace stepscope {

class LaneDirectory final : public RowTexts {
 public:
  LaneDirectory(const RunDictionary& dictionary, RunId run);
  std::string Name(NameId id) const override { return dictionary_.Name(run_, id); }
  LaneIdentity Lane(EntityId id) const override;

 private:
  const RunDictionary& dictionary_;
  const RunId run_;
  absl::flat_hash_map<uint32_t, EntityInfo> entities_;
  std::map<std::pair<int64_t, int64_t>, EntityInfo> processes_;  ///< by tgid and start time
};

}  // namespace stepscope
