// SPDX-License-Identifier: Apache-2.0
// LaneFacts: what the lanes of one run are: which thread of which process, working for which rank. Built once a query from the
// run's dictionary.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "daemon/jobs/job_table.h"
#include "daemon/pipeline/table_reader.h"

namespace stepscope {

struct LaneFact {
  EntityKind kind = EntityKind::kNode;
  int32_t pid = 0;
  int32_t tid = 0;
  int32_t rank = -1;     ///< -1 = none
  int32_t inner_id = 0;  ///< pid or tid in its own pid namespace; 0 = in the host's
  ProcessKey process;    ///< of a process, thread or metric
  std::string name;      ///< comm of a thread, command of a process, name of a metric
  std::string process_name;
};

class LaneFacts {
 public:
  LaneFacts(const RunDictionary& dictionary, const JobTable& jobs, RunId run);

  /// A lane the dictionary does not know yet reads as a nameless node lane.
  const LaneFact& Of(uint32_t lane) const;
  const std::unordered_map<uint32_t, LaneFact>& all() const { return facts_; }
  /// The lock of a process's Python interpreter; empty = not known.
  AddressRange GilOf(ProcessKey process) const;
  /// Which lanes share a training loop: those of a rank, else those of a process.
  int64_t GroupOf(uint32_t lane) const;
  /// "rank 3", "python (4711)", "thread python/4712", …
  std::string Label(uint32_t lane) const;

 private:
  std::unordered_map<uint32_t, LaneFact> facts_;
  std::map<ProcessKey, AddressRange> gils_;
};

}  // namespace stepscope
