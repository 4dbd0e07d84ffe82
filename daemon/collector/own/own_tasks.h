// SPDX-License-Identifier: Apache-2.0
// The processes and threads OwnCollector follows, and what it knows of each. Plain state of its thread.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "daemon/collector/own/thread_sums.h"
#include "daemon/collector/own/thread_turns.h"
#include "daemon/jobs/job_table.h"
#include "trace/batch.h"

namespace stepscope {

struct OwnThread {
  int32_t tid = 0;
  int32_t tgid = 0;
  RunId run;
  EntityKey key;
  std::string comm;
  ThreadTurns turns{{}, false};
  ThreadSums sums;             ///< at the last sweep
  uint64_t records = 0;        ///< perf records since the last sweep
  uint8_t silent_sweeps = 0;   ///< sweeps in a row in which the kernel counted turns and no record came
  uint8_t missing_sweeps = 0;  ///< sweeps in a row in which /proc did not list it
  bool is_refused = false;     ///< perf does not record it; its sums are read all the same
  uint64_t batch_serial = 0;   ///< batch_lane is valid while this is the serial of the batches being filled
  uint32_t batch_lane = 0;
};

struct OwnProcess {
  ProcessKey key;
  RunId run;
  size_t threads = 0;
  bool same_ids_inside = true;  ///< its pid namespace is the daemon's
  ThreadSums of_ended;          ///< last known sums of its threads that ended
  std::vector<int32_t> found;   ///< threads /proc listed in the last sweep that nobody announced
};

class OwnTasks {
 public:
  OwnProcess* Process(int32_t tgid);
  OwnThread* Thread(int32_t tid);
  OwnProcess& AddProcess(ProcessKey key, RunId run);
  OwnThread& AddThread(OwnProcess& process, int32_t tid, ThreadTurns turns);
  /// Returns the process if that was the last thread known of it, else nullptr.
  OwnProcess* RemoveThread(int32_t tid);
  /// With all its threads.
  void RemoveProcess(int32_t tgid);

  std::vector<int32_t> Processes() const;
  std::vector<int32_t> ProcessesOf(RunId run) const;
  std::vector<int32_t> ThreadsOf(int32_t tgid) const;
  size_t process_count() const { return processes_.size(); }
  size_t thread_count() const { return threads_.size(); }
  std::unordered_map<int32_t, OwnThread>& threads() { return threads_; }

 private:
  std::unordered_map<int32_t, OwnProcess> processes_;
  std::unordered_map<int32_t, OwnThread> threads_;
};

}  // namespace stepscope
