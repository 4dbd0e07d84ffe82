// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/sched_task_table.h"

namespace stepscope {

TrackedProcess* TaskTable::Process(int32_t tgid) {
  auto it = processes_.find(tgid);
  return it == processes_.end() ? nullptr : &it->second;
}

TrackedThread* TaskTable::Thread(int32_t tid) {
  auto it = threads_.find(tid);
  return it == threads_.end() ? nullptr : &it->second;
}

TrackedProcess& TaskTable::AddProcess(ProcessKey key, RunId run, uint8_t klass) {
  TrackedProcess& process = processes_[key.pid.value];
  process = {key, run, klass, 0};
  return process;
}

TrackedThread& TaskTable::AddThread(const TrackedProcess& process, int32_t tid, std::string comm) {
  RemoveThread(tid);
  int32_t tgid = process.key.pid.value;
  TrackedThread& thread = threads_[tid];
  thread.tid = tid;
  thread.tgid = tgid;
  thread.run = process.run;
  thread.key = {EntityKind::kThread, tgid, process.key.start_ticks, tid, {}};
  thread.comm = std::move(comm);
  ++processes_[tgid].threads;
  return thread;
}

TrackedProcess* TaskTable::RemoveThread(int32_t tid) {
  auto it = threads_.find(tid);
  if (it == threads_.end()) return nullptr;
  TrackedProcess* process = Process(it->second.tgid);
  threads_.erase(it);
  if (process == nullptr || --process->threads > 0) return nullptr;
  return process;
}

void TaskTable::RemoveProcess(int32_t tgid) {
  std::erase_if(threads_, [tgid](const auto& entry) { return entry.second.tgid == tgid; });
  processes_.erase(tgid);
}

std::vector<int32_t> TaskTable::ProcessesOf(RunId run) const {
  std::vector<int32_t> found;
  for (const auto& [tgid, process] : processes_) {
    if (process.run == run) found.push_back(tgid);
  }
  return found;
}

std::vector<int32_t> TaskTable::ThreadsOf(int32_t tgid) const {
  std::vector<int32_t> found;
  for (const auto& [tid, thread] : threads_) {
    if (thread.tgid == tgid) found.push_back(tid);
  }
  return found;
}

std::vector<int32_t> TaskTable::Processes() const {
  std::vector<int32_t> found;
  found.reserve(processes_.size());
  for (const auto& entry : processes_) found.push_back(entry.first);
  return found;
}

}  // namespace stepscope
