// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/own/own_tasks.h"

namespace stepscope {

OwnProcess* OwnTasks::Process(int32_t tgid) {
  const auto it = processes_.find(tgid);
  return it == processes_.end() ? nullptr : &it->second;
}

OwnThread* OwnTasks::Thread(int32_t tid) {
  const auto it = threads_.find(tid);
  return it == threads_.end() ? nullptr : &it->second;
}

OwnProcess& OwnTasks::AddProcess(ProcessKey key, RunId run) {
  OwnProcess& process = processes_[key.pid.value];
  process = {};
  process.key = key;
  process.run = run;
  return process;
}

OwnThread& OwnTasks::AddThread(OwnProcess& process, int32_t tid, ThreadTurns turns) {
  RemoveThread(tid);
  const int32_t tgid = process.key.pid.value;
  OwnThread& thread = threads_[tid];
  thread.tid = tid;
  thread.tgid = tgid;
  thread.run = process.run;
  thread.key = {EntityKind::kThread, tgid, process.key.start_ticks, tid, {}};
  thread.turns = turns;
  ++process.threads;
  return thread;
}

OwnProcess* OwnTasks::RemoveThread(int32_t tid) {
  const auto it = threads_.find(tid);
  if (it == threads_.end()) return nullptr;
  OwnProcess* process = Process(it->second.tgid);
  const ThreadSums sums = it->second.sums;
  threads_.erase(it);
  if (process == nullptr) return nullptr;
  process->of_ended.running_ns += sums.running_ns;
  process->of_ended.runnable_ns += sums.runnable_ns;
  process->of_ended.turns += sums.turns;
  return --process->threads > 0 ? nullptr : process;
}

void OwnTasks::RemoveProcess(int32_t tgid) {
  std::erase_if(threads_, [tgid](const auto& entry) { return entry.second.tgid == tgid; });
  processes_.erase(tgid);
}

std::vector<int32_t> OwnTasks::Processes() const {
  std::vector<int32_t> found;
  found.reserve(processes_.size());
  for (const auto& entry : processes_) found.push_back(entry.first);
  return found;
}

std::vector<int32_t> OwnTasks::ProcessesOf(RunId run) const {
  std::vector<int32_t> found;
  for (const auto& [tgid, process] : processes_) {
    if (process.run == run) found.push_back(tgid);
  }
  return found;
}

std::vector<int32_t> OwnTasks::ThreadsOf(int32_t tgid) const {
  std::vector<int32_t> found;
  for (const auto& [tid, thread] : threads_) {
    if (thread.tgid == tgid) found.push_back(tid);
  }
  return found;
}

}  // namespace stepscope
