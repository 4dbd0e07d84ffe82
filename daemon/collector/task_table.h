// SPDX-License-Identifier: Apache-2.0
// The processes and threads a scheduling collector follows, and to which run each belongs. Plain state of its thread: it learns
// from /proc scans and announcements, and answers "whose turn is this?" once per record.
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
  uint64_t vanished_in_drain = 0;  ///< of the collector; 0 = procfs listed it when it was last asked
  /// Where the thread stands in the batch being filled (OpenBatches): index into its entities, valid while the serials agree.
  uint64_t batch_serial = 0;
  uint32_t batch_lane = 0;
};

struct TrackedProcess {
  ProcessKey key;
  RunId run;
  size_t threads = 0;
  void Ended(const TrackedThread&) {}  ///< one of its threads
};

/// ProcessT and ThreadT are the structs above, or heirs of them.
template <typename ProcessT, typename ThreadT>
class TaskTableOf {
 public:
  /// nullptr if not followed.
  ProcessT* Process(int32_t tgid) { return Find(processes_, tgid); }
  ThreadT* Thread(int32_t tid) { return Find(threads_, tid); }

  ProcessT& AddProcess(ProcessKey key, RunId run) {
    ProcessT& process = processes_[key.pid.value];
    process = {};
    process.key = key;
    process.run = run;
    return process;
  }
  /// Adds to a followed process; a thread known under that tid is replaced.
  ThreadT& AddThread(ProcessT& process, int32_t tid) {
    RemoveThread(tid);
    ThreadT& thread = threads_[tid];
    thread.tid = tid;
    thread.tgid = process.key.pid.value;
    thread.run = process.run;
    thread.key = {EntityKind::kThread, thread.tgid, process.key.start_ticks, tid, {}};
    ++process.threads;
    return thread;
  }
  /// Returns the process if that was the last thread known of it, else nullptr.
  ProcessT* RemoveThread(int32_t tid) {
    const auto it = threads_.find(tid);
    if (it == threads_.end()) return nullptr;
    ProcessT* process = Process(it->second.tgid);
    if (process != nullptr) process->Ended(it->second);
    threads_.erase(it);
    return process == nullptr || --process->threads > 0 ? nullptr : process;
  }
  /// With all its threads.
  void RemoveProcess(int32_t tgid) {
    std::erase_if(threads_, [tgid](const auto& entry) { return entry.second.tgid == tgid; });
    processes_.erase(tgid);
  }

  std::vector<int32_t> Processes() const {
    return IdsIf(processes_, [](const ProcessT&) { return true; });
  }
  std::vector<int32_t> ProcessesOf(RunId run) const {
    return IdsIf(processes_, [run](const ProcessT& process) { return process.run == run; });
  }
  std::vector<int32_t> ThreadsOf(int32_t tgid) const {
    return IdsIf(threads_, [tgid](const ThreadT& thread) { return thread.tgid == tgid; });
  }
  size_t process_count() const { return processes_.size(); }
  size_t thread_count() const { return threads_.size(); }
  std::unordered_map<int32_t, ThreadT>& threads() { return threads_; }

 private:
  template <typename Map>
  static typename Map::mapped_type* Find(Map& map, int32_t id) {
    const auto it = map.find(id);
    return it == map.end() ? nullptr : &it->second;
  }
  template <typename Map, typename Wanted>
  static std::vector<int32_t> IdsIf(const Map& map, Wanted wanted) {
    std::vector<int32_t> ids;
    for (const auto& [id, task] : map) {
      if (wanted(task)) ids.push_back(id);
    }
    return ids;
  }

  std::unordered_map<int32_t, ProcessT> processes_;
  std::unordered_map<int32_t, ThreadT> threads_;
};

using TaskTable = TaskTableOf<TrackedProcess, TrackedThread>;

}  // namespace stepscope
