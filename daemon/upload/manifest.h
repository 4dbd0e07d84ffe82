// SPDX-License-Identifier: Apache-2.0
// Manifests (docs/formats/parquet.md): one small JSON document per part, and one per run that is written last, so a reader can
// say what is complete.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "daemon/upload/run_directory.h"
#include "stepscope/store/v1/store.pb.h"
#include "stepscope/store/v1/upload.pb.h"
#include "storage/parquet/wall_clock_map.h"

namespace stepscope {

constexpr int64_t kManifestSchemaVersion = 1;

std::string PartManifestText(const UploadRun& run, uint32_t part, const store::v1::UploadPart& record);

struct ClosingFacts {
  const std::map<uint32_t, store::v1::UploadPart>* parts;
  std::map<TableId, uint64_t> stored_rows;  ///< what was ever stored; more than the parts hold makes the manifest partial
  uint64_t damaged_blocks = 0;
  const WallClockMap* wall;
  int64_t wall_error_ns = 0;
  store::v1::RunRecord record;  ///< the pipeline's totals of the run
};
/// Rows of all parts, by table.
std::map<TableId, uint64_t> UploadedRows(const std::map<uint32_t, store::v1::UploadPart>& parts);
std::string ClosingManifestText(const UploadRun& run, const ClosingFacts& facts);

}  // namespace stepscope
