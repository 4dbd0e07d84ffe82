// SPDX-License-Identifier: Apache-2.0
// The processes and threads the sched collector follows, and to which run each belongs. Plain state of the sched thread: it
// learns from /proc scans and task events, and answers "whose slice is this?" once per record.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "daemon/jobs/job_table.h"
#include "trace/batch.h"

namespace stepscope {

struct TrackedThread {
  int32_t tid = 0;
  int32_t tgid = 0;
  RunId run;
  EntityKey key;
  std::string comm;
  /// Where the thread stands in the batch being filled (SliceRows): index into its entities, valid while the serials agree.
  uint64_t batch_serial = 0;
  uint32_t batch_lane = 0;
};

struct TrackedProcess {
  ProcessKey key;
  RunId run;
  uint8_t klass = 0;
  size_t threads = 0;
};

class TaskTable {
 public:
  /// nullptr if not followed.
  TrackedProcess* Process(int32_t tgid);
  TrackedThread* Thread(int32_t tid);

  TrackedProcess& AddProcess(ProcessKey key, RunId run, uint8_t klass);
  /// Adds to a followed process; a thread known under that tid is replaced.
  TrackedThread& AddThread(const TrackedProcess& process, int32_t tid, std::string comm);
  /// Returns the process if that was the last thread known of it, else nullptr.
  TrackedProcess* RemoveThread(int32_t tid);
  /// With all its threads.
  void RemoveProcess(int32_t tgid);

  std::vector<int32_t> ProcessesOf(RunId run) const;
  std::vector<int32_t> ThreadsOf(int32_t tgid) const;
  std::vector<int32_t> Processes() const;
  size_t process_count() const { return processes_.size(); }
  size_t thread_count() const { return threads_.size(); }

 private:
  std::unordered_map<int32_t, TrackedProcess> processes_;
  std::unordered_map<int32_t, TrackedThread> threads_;
};

}  // namespace stepscope
