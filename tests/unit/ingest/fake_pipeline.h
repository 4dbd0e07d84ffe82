// SPDX-License-Identifier: Apache-2.0
// Fakes around ingest: a store that keeps positions in memory, a pipeline that stores each delivery at once or on request, jobs.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/jobs/job_table.h"
#include "daemon/pipeline/delivery.h"
#include "daemon/pipeline/place.h"

namespace stepscope::testing {

class FakeStore final : public Store {
 public:
  void Apply(const Delivery& delivery) {
    const std::lock_guard lock(mu_);
    for (const PositionRow& row : delivery.positions) positions_[{row.session, row.ring}] = row;
    for (const SessionNameRow& row : delivery.session_names) names_[{row.session, row.ring, row.id}] = row;
  }
  bool Knows(const std::string& session) const {
    const std::lock_guard lock(mu_);
    return std::ranges::any_of(positions_, [&](const auto& entry) { return entry.first.first == session; });
  }
  absl::StatusOr<std::vector<PositionRow>> Positions(std::string_view session) const override {
    const std::lock_guard lock(mu_);
    std::vector<PositionRow> rows;
    for (const auto& [key, row] : positions_) {
      if (key.first == session) rows.push_back(row);
    }
    return rows;
  }
  absl::StatusOr<std::vector<SessionNameRow>> SessionNames(std::string_view session) const override {
    const std::lock_guard lock(mu_);
    std::vector<SessionNameRow> rows;
    for (const auto& [key, row] : names_) {
      if (row.session == session) rows.push_back(row);
    }
    return rows;
  }
  absl::Status ForgetSession(std::string_view session) override {
    const std::lock_guard lock(mu_);
    std::erase_if(positions_, [&](const auto& entry) { return entry.first.first == session; });
    std::erase_if(names_, [&](const auto& entry) { return entry.second.session == session; });
    return absl::OkStatus();
  }

  absl::Status Commit(const Seal&) override { return absl::OkStatus(); }
  absl::Status Sync() override { return absl::OkStatus(); }
  absl::Status ForEachBlock(RunId, TableId, NodeTime, NodeTime,
                            const std::function<bool(const BlockKey&, std::string_view)>&) const override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<std::string>> GetMeta(std::string_view, std::string_view) const override { return std::nullopt; }
  absl::Status ForEachMeta(std::string_view, const std::function<bool(std::string_view, std::string_view)>&) const override {
    return absl::OkStatus();
  }
  absl::Status ForEachName(RunId, const std::function<bool(NameId, std::string_view)>&) const override {
    return absl::OkStatus();
  }
  absl::Status ForEachRollup(RunId, uint32_t, uint32_t, const std::function<bool(uint32_t, std::string_view)>&) const override {
    return absl::OkStatus();
  }
  absl::Status PutUpload(RunId, uint32_t, std::string_view) override { return absl::OkStatus(); }
  absl::Status ForEachUpload(RunId, const std::function<bool(uint32_t, std::string_view)>&) const override {
    return absl::OkStatus();
  }
  absl::StatusOr<uint32_t> NextSeq(RunId, uint16_t) const override { return 0; }
  absl::Status DeleteRun(RunId) override { return absl::OkStatus(); }
  absl::Status Reclaim(std::span<const BlockRange>) override { return absl::OkStatus(); }
  absl::StatusOr<uint64_t> DiskBytes() const override { return 0; }

 private:
  mutable std::mutex mu_;
  std::map<std::pair<std::string, uint32_t>, PositionRow> positions_;
  std::map<std::tuple<std::string, uint32_t, uint32_t>, SessionNameRow> names_;
};

/// A span as stored, placed and with its names.
struct StoredSpan {
  std::string name;
  int64_t start_ns = 0, dur_ns = 0, flags = 0, tid = 0, pid = 0;
};
struct StoredLoss {
  LossReason reason{};
  int64_t count = 0, bytes = 0;
};

class FakePipeline final : public DeliverySink {
 public:
  FakePipeline(FakeStore* store, ClockRegistry* clocks) : store_(store), clocks_(clocks) {}

  /// While holding, deliveries wait for Release().
  void Hold() {
    const std::lock_guard lock(mu_);
    holding_ = true;
  }
  void Release() {
    std::deque<Delivery> held;
    {
      const std::lock_guard lock(mu_);
      holding_ = false;
      held.swap(held_);
    }
    for (Delivery& delivery : held) Keep(delivery);
  }
  bool Deliver(Delivery delivery) override {
    std::unique_lock lock(mu_);
    ++delivered_;
    changed_.notify_all();
    if (holding_) {
      held_.push_back(std::move(delivery));
      return true;
    }
    lock.unlock();
    Keep(delivery);
    return true;
  }
  /// Waits until `done(*this)` with its lock held; false after 20 s.
  bool Wait(const std::function<bool(const FakePipeline&)>& done) {
    std::unique_lock lock(mu_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return done(*this); });
  }
  bool WaitSpans(size_t count) {
    return Wait([count](const FakePipeline& p) { return p.spans.size() >= count; });
  }
  /// Spans of that name; call when nothing is delivered any more, or under Wait.
  size_t Count(const std::string& name) const { return static_cast<size_t>(std::ranges::count(spans, name, &StoredSpan::name)); }
  int64_t Lost(LossReason reason) const {
    int64_t count = 0;
    for (const StoredLoss& loss : losses) count += loss.reason == reason ? loss.count : 0;
    return count;
  }
  size_t delivered() const { return delivered_; }

  std::vector<StoredSpan> spans;
  std::vector<StoredLoss> losses;
  std::vector<EntityNote> notes;

 private:
  void Keep(Delivery& delivery) {
    {
      const std::lock_guard lock(mu_);
      for (Batch& batch : delivery.batches) KeepRows(batch);
      notes.insert(notes.end(), delivery.notes.begin(), delivery.notes.end());
      store_->Apply(delivery);
    }
    if (delivery.on_stored) delivery.on_stored(absl::OkStatus());
    const std::lock_guard lock(mu_);
    changed_.notify_all();
  }
  void KeepRows(Batch& batch) {
    unplaceable += PlaceBatch(batch, *clocks_);
    for (size_t r = 0; r < batch.rows(); ++r) {
      const auto cell = [&](size_t column) { return batch.columns[column][r]; };
      const EntityKey& lane = batch.entities.at(batch.lane[r]);
      if (batch.table == TableId::kSpan) {
        using namespace span_column;
        spans.push_back(
            {batch.names.at(static_cast<size_t>(cell(kName))), cell(kStart), cell(kDur), cell(kFlags), lane.c, lane.a});
      } else if (batch.table == TableId::kLoss) {
        using namespace loss_column;
        losses.push_back({static_cast<LossReason>(cell(kReason)), cell(kCount), cell(kBytes)});
      }
    }
  }

 public:
  size_t unplaceable = 0;

 private:
  FakeStore* store_;
  ClockRegistry* clocks_;
  std::mutex mu_;
  std::condition_variable changed_;
  std::deque<Delivery> held_;
  bool holding_ = false;
  size_t delivered_ = 0;
};

class FakeJobs final : public SessionJobs {
 public:
  absl::StatusOr<RunId> RunForSession(ProcessKey process, uint32_t, const std::map<std::string, std::string>& facts) override {
    std::unique_lock lock(mu_);
    asked_.push_back(process);
    facts_seen = facts;
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return !closed_; });
    return RunId{7};
  }
  void AddFact(RunId, const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mu_);
    job_facts[key] = value;
  }
  void AddSenderCpu(RunId, int64_t) override {}
  int32_t RankOf(RunId, ProcessKey) const override { return 3; }
  ProcessKey SeenProcess(ProcessKey gone, uint32_t) const override { return gone; }

  /// A closed gate keeps the ingest thread inside RunForSession.
  void Gate(bool closed) {
    const std::lock_guard lock(mu_);
    closed_ = closed;
    changed_.notify_all();
  }
  bool WaitAsked(size_t count) {
    std::unique_lock lock(mu_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return asked_.size() >= count; });
  }

  std::map<std::string, std::string> facts_seen;
  std::map<std::string, std::string> job_facts;

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  std::vector<ProcessKey> asked_;
  bool closed_ = false;
};

}  // namespace stepscope::testing
