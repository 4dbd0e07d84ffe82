// SPDX-License-Identifier: Apache-2.0
// OccupantNames: who the kernel side's (tid, tgid) pairs are, as far as the job they kept waiting may know: its own threads,
// kernel threads and other processes of its user by name, everybody else by class alone. Sched thread only.
//
// Names come from /proc, looked up once per thread and again after some seconds: an occupant may be gone by then (kGone), and a
// tid may have a new owner, whose tgid then differs in all but freak cases.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "base/ids.h"
#include "base/time.h"
#include "daemon/collector/sched_proc_scan.h"
#include "daemon/collector/task_table.h"
#include "trace/schema.h"

namespace stepscope {

struct Occupant {
  OccupantClass klass = OccupantClass::kUnknown;
  int32_t tid = 0;  ///< 0 where it may not be told
  int32_t tgid = 0;
  std::string name;
};

class OccupantNames {
 public:
  OccupantNames(const ProcScan* proc, TaskTable* tasks) : proc_(proc), tasks_(tasks) {}
  /// Of a CPU a thread of `run`, a job of user `uid`, waited for.
  Occupant Resolve(uint32_t tid, uint32_t tgid, RunId run, uint32_t uid, NodeTime now);

 private:
  struct Known {
    uint32_t tgid = 0;
    NodeTime looked_up;
    int64_t start_ticks = 0;
    bool is_gone = false;
    bool is_kernel = false;
    uint32_t uid = 0;
    std::string name;
  };
  const Known& LookUp(uint32_t tid, uint32_t tgid, NodeTime now);

  const ProcScan* const proc_;
  TaskTable* const tasks_;
  std::unordered_map<uint32_t, Known> known_;  ///< by tid; bounded
};

}  // namespace stepscope
