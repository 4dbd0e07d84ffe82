// SPDX-License-Identifier: Apache-2.0
// A run directory and a dictionary whose contents a test (or upload_tool) sets.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "daemon/pipeline/table_reader.h"
#include "daemon/upload/run_directory.h"

namespace stepscope {

class FixedDictionary final : public RunDictionary {
 public:
  std::map<uint32_t, std::string> names;
  std::map<uint32_t, EntityInfo> entities;

  std::string Name(RunId, NameId id) const override {
    const auto at = names.find(id.value);
    return at == names.end() ? std::string() : at->second;
  }
  EntityInfo Entity(RunId, EntityId id) const override {
    const auto at = entities.find(id.value);
    return at == entities.end() ? EntityInfo() : at->second;
  }
  std::vector<std::pair<EntityId, EntityInfo>> Entities(RunId) const override {
    std::vector<std::pair<EntityId, EntityInfo>> list;
    for (const auto& [id, entity] : entities) list.push_back({EntityId{id}, entity});
    return list;
  }
  std::vector<std::pair<NameId, std::string>> Names(RunId) const override {
    std::vector<std::pair<NameId, std::string>> list;
    for (const auto& [id, name] : names) list.push_back({NameId{id}, name});
    return list;
  }
};

/// One run of one job.
class OneRun final : public RunDirectory {
 public:
  explicit OneRun(UploadRun run) : run_(std::move(run)) {}

  std::vector<UploadRun> Runs() const override {
    const absl::MutexLock lock(&mutex_);
    if (state_ == JobState::kDone) return {};
    return {run_};
  }
  absl::StatusOr<UploadRun> Find(RunId run) const override {
    const absl::MutexLock lock(&mutex_);
    if (run != run_.run) return absl::NotFoundError("no such run");
    return run_;
  }
  void SetJobState(RunId, JobState state, const std::string& reason) override {
    const absl::MutexLock lock(&mutex_);
    state_ = state;
    reason_ = reason;
  }
  void End() {
    const absl::MutexLock lock(&mutex_);
    run_.ended = true;
  }
  std::pair<JobState, std::string> state() const {
    const absl::MutexLock lock(&mutex_);
    return {state_, reason_};
  }
  /// True once the job is done or failed; waits up to `seconds`.
  bool WaitSettled(double seconds) const {
    const absl::MutexLock lock(&mutex_);
    const auto settled = [this] { return state_ == JobState::kDone || state_ == JobState::kFailed; };
    return mutex_.AwaitWithTimeout(absl::Condition(&settled), absl::Seconds(seconds));
  }
  bool WaitDone(double seconds) const {
    const absl::MutexLock lock(&mutex_);
    const auto done = [this] { return state_ == JobState::kDone; };
    return mutex_.AwaitWithTimeout(absl::Condition(&done), absl::Seconds(seconds));
  }

 private:
  mutable absl::Mutex mutex_;
  UploadRun run_;
  JobState state_ = JobState::kRunning;
  std::string reason_;
};

}  // namespace stepscope
