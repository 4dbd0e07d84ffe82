// SPDX-License-Identifier: Apache-2.0
// A node in memory for RPC and web tests: a store without blocks, live rows built by hand, a dictionary, a clock that stands
// still, and the real JobTable with one job of this process: rank 0.
#pragma once

#include <unistd.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/jobs/job_table.h"
#include "daemon/pipeline/run_totals.h"
#include "daemon/pipeline/table_reader.h"
#include "storage/store.h"

namespace stepscope {

class FakeStore : public Store {
 public:
  absl::Status Commit(const Seal& seal) override {
    for (const MetaRow& row : seal.meta) {
      if (row.value.empty()) {
        meta.erase({row.kind, row.id});
      } else {
        meta[{row.kind, row.id}] = row.value;
      }
    }
    for (const RollupRow& row : seal.rollups) rollups[{row.run.value, row.minute}] = row.value;
    return absl::OkStatus();
  }
  absl::Status Sync() override { return absl::OkStatus(); }
  absl::Status ForEachBlock(RunId, TableId, NodeTime, NodeTime,
                            const std::function<bool(const BlockKey&, std::string_view)>&) const override {
    return blocks_status;
  }
  absl::StatusOr<std::optional<std::string>> GetMeta(std::string_view kind, std::string_view id) const override {
    const auto it = meta.find({std::string(kind), std::string(id)});
    if (it == meta.end()) return std::optional<std::string>();
    return std::optional<std::string>(it->second);
  }
  absl::Status ForEachMeta(std::string_view kind,
                           const std::function<bool(std::string_view, std::string_view)>& visit) const override {
    for (const auto& [key, value] : meta) {
      if (key.first == kind && !visit(key.second, value)) break;
    }
    return absl::OkStatus();
  }
  absl::Status ForEachName(RunId, const std::function<bool(NameId, std::string_view)>&) const override {
    return absl::OkStatus();
  }
  absl::Status ForEachRollup(RunId run, uint32_t first, uint32_t last,
                             const std::function<bool(uint32_t, std::string_view)>& visit) const override {
    for (const auto& [key, value] : rollups) {
      if (key.first == run.value && key.second >= first && key.second <= last && !visit(key.second, value)) break;
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<PositionRow>> Positions(std::string_view) const override { return std::vector<PositionRow>(); }
  absl::StatusOr<std::vector<SessionNameRow>> SessionNames(std::string_view) const override {
    return std::vector<SessionNameRow>();
  }
  absl::Status ForgetSession(std::string_view) override { return absl::OkStatus(); }
  absl::Status PutUpload(RunId, uint32_t, std::string_view) override { return absl::OkStatus(); }
  absl::Status ForEachUpload(RunId, const std::function<bool(uint32_t, std::string_view)>&) const override {
    return absl::OkStatus();
  }
  absl::StatusOr<uint32_t> NextSeq(RunId, uint16_t) const override { return 1; }
  absl::Status DeleteRun(RunId run) override {
    deleted.push_back(run);
    disk_bytes -= 400;
    return absl::OkStatus();
  }
  absl::Status Reclaim(std::span<const BlockRange>) override { return absl::OkStatus(); }
  absl::StatusOr<uint64_t> DiskBytes() const override { return disk_bytes; }

  std::map<std::pair<std::string, std::string>, std::string> meta;
  std::map<std::pair<uint32_t, uint32_t>, std::string> rollups;
  std::vector<RunId> deleted;
  uint64_t disk_bytes = 1000;
  absl::Status blocks_status;
};

class FakeRows final : public LiveRows {
 public:
  std::vector<LiveBlock> LiveBlocks(RunId run, TableId table) const override {
    std::vector<LiveBlock> blocks;
    const auto it = batches.find(table);
    if (it != batches.end()) blocks.push_back({{run, table, 0, 0, 1}, std::make_shared<Batch>(it->second)});
    return blocks;
  }
  std::map<TableId, Batch> batches;
};

class FakeDictionary final : public RunDictionary {
 public:
  std::string Name(RunId, NameId id) const override {
    const auto it = names.find(id.value);
    return it == names.end() ? "" : it->second;
  }
  EntityInfo Entity(RunId, EntityId id) const override { return entities.at(id.value); }
  std::vector<std::pair<EntityId, EntityInfo>> Entities(RunId) const override {
    std::vector<std::pair<EntityId, EntityInfo>> all;
    for (const auto& [id, info] : entities) all.emplace_back(EntityId{id}, info);
    return all;
  }
  std::vector<std::pair<NameId, std::string>> Names(RunId) const override { return {}; }

  std::map<uint32_t, std::string> names;
  std::map<uint32_t, EntityInfo> entities;
};

class FakeTotals final : public TotalsSource {
 public:
  RunTotals Totals(RunId) const override { return totals; }
  absl::Status Drain() override {
    if (on_drain) on_drain();
    return absl::OkStatus();
  }
  RunTotals totals;
  std::function<void()> on_drain;
};

class StandingClock final : public Clock {
 public:
  NodeTime Node() const override { return node; }
  WallTime Wall() const override { return {node.ns + 1'700'000'000 * kNsPerSecond + wall_step_ns}; }
  NodeTime node{1000 * kNsPerSecond};
  int64_t wall_step_ns = 0;
};

/// Lanes: 1 = this process (rank 0), 2 = its main thread, 3 = a loader worker, 4 = the worker's thread, 5 = metric "loss".
struct FakeNode {
  static constexpr uint32_t kProcess = 1, kMain = 2, kWorker = 3, kWorkerThread = 4, kMetric = 5;
  static constexpr uint32_t kStepName = 10, kLoaderName = 11, kForwardName = 12, kBrokenName = 13, kLossName = 14;

  FakeNode() : reader(&store, &rows), jobs(&store, &clock, "boot", "node-a", JobTable::Hooks{}) {
    self = {Pid{getpid()}, ReadStartTicks(Pid{getpid()}).value()};
    StartJobSpec spec;
    spec.name = "train";
    spec.id = "train-7";
    spec.uid = geteuid();
    spec.root = self;
    run = jobs.StartJob(spec)->run;
    jobs.RunForSession(self, geteuid(), {{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"WORLD_SIZE", "1"}}).value();
    const int64_t pid = self.pid.value;
    dictionary.entities[kProcess] = {{EntityKind::kProcess, pid, self.start_ticks, 0, ""}, "python train.py", 0, 0};
    dictionary.entities[kMain] = {{EntityKind::kThread, pid, self.start_ticks, pid, ""}, "python", -1, 0};
    dictionary.entities[kWorker] = {{EntityKind::kProcess, 999'999, self.start_ticks + 5, 0, ""}, "python worker", -1, 0};
    dictionary.entities[kWorkerThread] = {
        {EntityKind::kThread, 999'999, self.start_ticks + 5, 999'999, ""}, "pt_data_worker", -1, 0};
    dictionary.entities[kMetric] = {{EntityKind::kMetric, pid, self.start_ticks, 0, "loss"}, "", -1, 0};
    dictionary.names = {{kStepName, "step"},
                        {kLoaderName, "dataloader.next"},
                        {kForwardName, "forward"},
                        {kBrokenName, "bad\xFFname"},
                        {kLossName, "loss"}};
  }

  Batch& Rows(TableId table) { return rows.batches.try_emplace(table, Interned(table)).first->second; }
  void Span(uint32_t lane, SpanDomain domain, uint32_t name, int64_t start, int64_t dur, int64_t number = -1) {
    Rows(TableId::kSpan)
        .Append(lane, {start, dur, name, static_cast<int64_t>(domain), number < 0 ? 0 : number, number < 0 ? 0 : 1, 0, 0, 0});
  }
  void Turn(uint32_t lane, int64_t wait, int64_t on, int64_t dur, int64_t seq, int64_t state = 0) {
    Rows(TableId::kSchedSlice).Append(lane, {on, dur, wait, 0, 0, 0, 0, 0, state, seq, dur, wait, 0, 0, 0});
  }
  Batch Interned(TableId table) const {
    Batch batch = Batch::For(table, run);
    batch.interned = true;
    return batch;
  }

  FakeStore store;
  FakeRows rows;
  StandingClock clock;
  TableReader reader;
  FakeDictionary dictionary;
  FakeTotals totals;
  JobTable jobs;
  ProcessKey self;
  RunId run;
};

}  // namespace stepscope
