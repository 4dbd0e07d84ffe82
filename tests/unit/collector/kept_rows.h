// SPDX-License-Identifier: Apache-2.0
// A DeliverySink that keeps every row, can be held (a reader that fell behind), and a TaskObserver that keeps what it is told.
#pragma once

#include <bit>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "daemon/collector/task_observer.h"
#include "daemon/pipeline/delivery.h"

namespace stepscope {

class KeptRows final : public DeliverySink {
 public:
  using Row = std::vector<int64_t>;

  bool Deliver(Delivery delivery) override {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !is_held_; });
    --waiting_;
    for (const Batch& batch : delivery.batches) {
      for (size_t row = 0; row < batch.rows(); ++row) {
        Row values;
        for (const auto& column : batch.columns) values.push_back(column[row]);
        if (batch.table == TableId::kCounter) {
          const EntityKey& key = batch.entities[batch.lane[row]];
          counters_[batch.names[static_cast<size_t>(values[counter_column::kName])]][key] =
              std::bit_cast<double>(values[counter_column::kValue]);
          continue;
        }
        auto& lanes = batch.table == TableId::kLoss ? losses_ : batch.table == TableId::kSchedWait ? waits_ : slices_;
        if (batch.table == TableId::kSchedWait)
          occupant_names_.insert(batch.names[static_cast<size_t>(values[wait_column::kOccupantName])]);
        const EntityKey& key = batch.entities[batch.lane[row]];
        if (batch.table == TableId::kSchedSlice) runs_[key].insert(batch.run);
        lanes[key].push_back(std::move(values));
      }
    }
    for (EntityNote& note : delivery.notes) notes_.push_back(std::move(note));
    return true;
  }

  /// From now on Deliver blocks.
  void Hold() {
    std::lock_guard lock(mutex_);
    is_held_ = true;
  }
  /// Returns when a reader is stuck in a Deliver that is held.
  void AwaitHeld() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_ > 0; });
  }
  void Release() {
    std::lock_guard lock(mutex_);
    is_held_ = false;
    changed_.notify_all();
  }

  std::map<EntityKey, std::vector<Row>> Slices() const {
    std::lock_guard lock(mutex_);
    return slices_;
  }
  /// Rows of the thread `tid`, whatever process it is of.
  std::vector<Row> SlicesOf(int32_t tid) const {
    std::vector<Row> rows;
    for (const auto& [key, lane] : Slices()) {
      if (key.c == tid) rows.insert(rows.end(), lane.begin(), lane.end());
    }
    return rows;
  }
  std::vector<Row> WaitsOf(int32_t tid) const {
    std::lock_guard lock(mutex_);
    std::vector<Row> rows;
    for (const auto& [key, lane] : waits_) {
      if (key.c == tid) rows.insert(rows.end(), lane.begin(), lane.end());
    }
    return rows;
  }
  /// The newest value of each metric, its instances summed.
  std::map<std::string, double> NewestCounters() const {
    std::lock_guard lock(mutex_);
    std::map<std::string, double> sums;
    for (const auto& [metric, instances] : counters_) {
      for (const auto& [key, value] : instances) sums[metric] += value;
    }
    return sums;
  }
  std::set<std::string> OccupantNames() const {
    std::lock_guard lock(mutex_);
    return occupant_names_;
  }
  uint64_t SliceCount() const {
    uint64_t count = 0;
    for (const auto& [key, lane] : Slices()) count += lane.size();
    return count;
  }
  /// What the loss rows of `table` count; TableId{} = task events.
  uint64_t Lost(TableId table) const {
    std::lock_guard lock(mutex_);
    int64_t count = 0;
    for (const auto& [key, lane] : losses_) {
      for (const Row& row : lane) {
        if (row[loss_column::kTable] == static_cast<int64_t>(table)) count += row[loss_column::kCount];
      }
    }
    return static_cast<uint64_t>(count);
  }
  uint64_t LostSlices() const { return Lost(TableId::kSchedSlice); }
  /// Runs that have slices of a thread.
  std::set<RunId> RunsOf(const EntityKey& thread) const {
    std::lock_guard lock(mutex_);
    const auto found = runs_.find(thread);
    return found == runs_.end() ? std::set<RunId>() : found->second;
  }
  std::vector<EntityNote> Notes() const {
    std::lock_guard lock(mutex_);
    return notes_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_held_ = false;
  int waiting_ = 0;
  std::map<EntityKey, std::set<RunId>> runs_;
  std::map<EntityKey, std::vector<Row>> slices_, waits_, losses_;
  std::set<std::string> occupant_names_;
  std::map<std::string, std::map<EntityKey, double>> counters_;
  std::vector<EntityNote> notes_;
};

class KeptTasks final : public TaskObserver {
 public:
  void OnProcess(RunId, ProcessKey process, ProcessKey parent) override {
    std::lock_guard lock(mutex_);
    parents[process] = parent;
  }
  void OnProcessExit(RunId, ProcessKey process, size_t) override {
    std::lock_guard lock(mutex_);
    ended.push_back(process);
  }
  void OnThread(const ThreadFacts& thread) override {
    std::lock_guard lock(mutex_);
    threads.push_back(thread);
  }
  void OnThreadExit(RunId, const EntityKey& thread, const ThreadTotals& final_totals) override {
    std::lock_guard lock(mutex_);
    totals.emplace_back(thread, final_totals);
  }
  uint64_t SwitchesOfEnded() {
    std::lock_guard lock(mutex_);
    uint64_t sum = 0;
    for (const auto& entry : totals) sum += entry.second.switches;
    return sum;
  }

  std::mutex mutex_;
  std::map<ProcessKey, ProcessKey> parents;
  std::vector<ProcessKey> ended;
  std::vector<ThreadFacts> threads;
  std::vector<std::pair<EntityKey, ThreadTotals>> totals;
};

}  // namespace stepscope
