// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/retention/replay.h"

#include <fmt/format.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "daemon/pipeline/pipeline.h"
#include "daemon/retention/retention.h"
#include "storage/store.h"

namespace stepscope {
namespace {

constexpr RunId kRun{1};
constexpr int kLanes = 8;
constexpr int64_t kBootNs = 1000 * kNsPerSecond;  ///< the job begins this long after the boot
constexpr std::array kRawTables = {TableId::kApiCall, TableId::kSchedSlice, TableId::kCounter, TableId::kSpan,
                                   TableId::kDeviceOp};
constexpr size_t kNamesKnown = 20;
/// Blobs that are being moved are there twice for a moment: a sixteenth of the limit, or this if it is less.
constexpr double kMostSlackBytes = 16 << 20;

class ReplayClock final : public Clock {
 public:
  NodeTime Node() const override { return {now_ns.load()}; }
  WallTime Wall() const override { return {now_ns.load()}; }
  std::atomic<int64_t> now_ns{kBootNs};
};

uint64_t DiskUse(const std::string& directory) {
  uint64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory, error)) {
    struct stat file{};
    if (lstat(entry.path().c_str(), &file) == 0) bytes += static_cast<uint64_t>(file.st_blocks) * 512;
  }
  return bytes;
}

uint64_t RssBytes() {
  uint64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

/// Steele, Lea, Flood: "Fast splittable pseudorandom number generators"; std::mt19937_64 would be half of the run time.
class SplitMix {
 public:
  explicit SplitMix(uint64_t seed) : state_(seed) {}
  uint64_t operator()() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
  }

 private:
  uint64_t state_;
};

/// A second of which all raw rows must have been kept.
struct Evidence {
  int64_t begin_ns;
  std::array<uint32_t, kRawTables.size()> rows;
};

class Source {
 public:
  Source(const ReplayPlan& plan, ReplayClock* clock, Pipeline* pipeline)
      : plan_(plan), clock_(clock), pipeline_(pipeline), random_(plan.seed) {}

  /// One step of the job.
  void Step(ReplayResult* result) {
    const bool outlier = random_() % static_cast<uint64_t>(plan_.outlier_every) == 0;
    const bool finding = random_() % static_cast<uint64_t>(plan_.finding_every) == 0;
    const int64_t begin = clock_->now_ns;
    const int pieces = outlier ? 3 : 1;
    const int64_t dur = plan_.step_ns * pieces - Below(plan_.step_ns / 20);
    Delivery delivery;
    for (const TableId table : kRawTables) delivery.batches.push_back(NewBatch(table));
    for (int piece = 0; piece < pieces; ++piece) {
      const Evidence rows = Fill(begin + piece * plan_.step_ns, &delivery);
      if (outlier || (finding && piece == 0)) evidence_.push_back(rows);
      for (size_t t = 0; t < kRawTables.size(); ++t) produced_[t] += rows.rows[t];
    }
    Batch& spans = delivery.batches[3];
    const auto number = static_cast<int64_t>(result->steps++);
    spans.Append(0, {begin, dur, 0, static_cast<int64_t>(SpanDomain::kStep), number, 1, 0, 0, 0});
    ++produced_[3];
    delivery.batches.push_back(NewBatch(TableId::kClockSample));
    delivery.batches.back().Append(0, {begin, 0, begin, begin, 10});
    if (finding) {
      delivery.batches.push_back(NewBatch(TableId::kFinding));
      delivery.batches.back().Append(0, {begin + kNsPerSecond / 4, kNsPerSecond / 4, 1, 0, 0, 0});
    }
    result->outliers += outlier;
    result->findings += finding;
    clock_->now_ns = begin + plan_.step_ns * pieces;
    pipeline_->Deliver(std::move(delivery));
  }
  const std::vector<Evidence>& evidence() const { return evidence_; }
  uint64_t produced(size_t table) const { return produced_[table]; }

 private:
  Batch NewBatch(TableId table) const {
    Batch batch = Batch::For(table, kRun);
    for (int lane = 0; lane < kLanes; ++lane) batch.entities.push_back({EntityKind::kThread, 100, 5, 100 + lane, ""});
    batch.names = names_;
    return batch;
  }
  /// Rows of one second: two fifths calls, two fifths slices, the rest.
  Evidence Fill(int64_t begin, Delivery* delivery) {
    const std::array<int, kRawTables.size()> share = {2, 2, 1, 1, 2};
    Evidence rows{begin, {}};
    for (size_t t = 0; t < kRawTables.size(); ++t) {
      const int count = plan_.rows_per_step * share[t] / 8;
      for (int i = 0; i < count; ++i)
        AddRow(begin + int64_t{900'000'000} / count * i + Below(400'000'000 / count), delivery->batches[t]);
      rows.rows[t] = static_cast<uint32_t>(count);
    }
    return rows;
  }
  void AddRow(int64_t start, Batch& batch) {
    const auto lane = static_cast<uint32_t>(Below(kLanes));
    const int64_t dur = 1000 + Below(20'000), name = Below(kNamesKnown);
    switch (batch.table) {
      case TableId::kApiCall:
        return batch.Append(lane, {start, dur, name, ++correlation_, 0});
      case TableId::kSchedSlice:
        return batch.Append(
            lane, {start, dur, Below(3000), Below(8), 100 + Below(8), 1, 202, 0x7f00, 0, ++correlation_, dur, 0, 0, 0, 0});
      case TableId::kCounter:
        return batch.Append(lane, {start, name, Below(1000), 0});
      case TableId::kSpan:
        return batch.Append(lane, {start, dur, name, 0, 0, 0, 1, 0, 0});
      default:
        return batch.Append(lane, {start, dur, 0, 0, name, 1, correlation_, 0, 0, 0, 0, 0});
    }
  }
  int64_t Below(int64_t limit) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(limit)); }
  static std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (size_t name = 0; name < kNamesKnown; ++name) names.push_back(fmt::format("name {}", name));
    return names;
  }

  const ReplayPlan& plan_;
  const std::vector<std::string> names_ = Names();
  ReplayClock* const clock_;
  Pipeline* const pipeline_;
  SplitMix random_;
  int64_t correlation_ = 0;
  std::vector<Evidence> evidence_;
  std::array<uint64_t, kRawTables.size()> produced_{};
};

/// Looks at the disk again and again until destroyed.
class DiskWatch {
 public:
  explicit DiskWatch(const std::string& directory)
      : thread_([this, directory] {
          while (!stop_) {
            const auto begun = std::chrono::steady_clock::now();
            most_ = std::max(most_.load(), DiskUse(directory));
            std::this_thread::sleep_for(std::chrono::milliseconds(20) + 10 * (std::chrono::steady_clock::now() - begun));
          }
        }) {}
  uint64_t Stop() {
    stop_ = true;
    thread_.join();
    return most_;
  }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> most_{0};
  std::thread thread_;
};

std::map<int64_t, uint64_t> Losses(const TableReader& reader, ReplayResult* result) {
  std::map<int64_t, uint64_t> lost;
  const absl::Status read = reader.ForEachBatch(kRun, TableId::kLoss, {0}, {INT64_MAX}, [&](const Batch& loss) {
    for (size_t row = 0; row < loss.rows(); ++row) {
      ++result->loss_rows;
      const auto count = static_cast<uint64_t>(loss.columns[loss_column::kCount][row]);
      lost[loss.columns[loss_column::kTable][row]] += count;
      result->evicted_rows += count;
    }
    return true;
  });
  if (!read.ok()) result->faults.push_back(read.ToString());
  return lost;
}

uint64_t CountRows(const TableReader& reader, TableId table, ReplayResult* result,
                   const std::function<void(const Batch&, size_t)>& visit) {
  uint64_t rows = 0;
  const absl::Status read = reader.ForEachBatch(kRun, table, {0}, {INT64_MAX}, [&](const Batch& batch) {
    for (size_t row = 0; row < batch.rows(); ++row) visit(batch, row);
    rows += batch.rows();
    return true;
  });
  if (!read.ok()) result->faults.push_back(read.ToString());
  return rows;
}

void Account(const TableReader& reader, const Pipeline& pipeline, const Source& source, ReplayResult* result) {
  std::map<int64_t, uint64_t> lost = Losses(reader, result);
  const RunTotals totals = pipeline.Totals(kRun);
  const std::vector<Evidence>& evidence = source.evidence();
  for (size_t t = 0; t < kRawTables.size(); ++t) {
    const TableId table = kRawTables[t];
    const auto table_id = static_cast<int64_t>(table);
    std::vector<uint32_t> found(evidence.size());
    uint64_t steps = 0;
    const uint64_t rows = CountRows(reader, table, result, [&](const Batch& batch, size_t row) {
      if (table == TableId::kSpan && batch.columns[span_column::kDomain][row] == static_cast<int64_t>(SpanDomain::kStep)) {
        ++steps;
        return;
      }
      const int64_t start = batch.columns[0][row];
      const auto after = std::upper_bound(evidence.begin(), evidence.end(), start,
                                          [](int64_t at, const Evidence& e) { return at < e.begin_ns; });
      if (after != evidence.begin() && start < std::prev(after)->begin_ns + kNsPerSecond)
        ++found[static_cast<size_t>(after - evidence.begin() - 1)];
    });
    result->rows += source.produced(t);
    if (rows + lost[table_id] != source.produced(t)) {
      result->faults.push_back(
          fmt::format("table {}: {} rows made, {} readable, {} in loss", table_id, source.produced(t), rows, lost[table_id]));
    }
    const LossKey key{static_cast<int64_t>(LossStage::kRetention), static_cast<int64_t>(LossReason::kEvicted), table_id};
    const auto total = totals.loss.find(key);
    const uint64_t told = total == totals.loss.end() ? 0 : static_cast<uint64_t>(total->second.count);
    if (told != lost[table_id])
      result->faults.push_back(fmt::format("table {}: totals say {} lost, loss rows {}", table_id, told, lost[table_id]));
    if (table == TableId::kSpan && steps != result->steps)
      result->faults.push_back(fmt::format("{} of {} steps are there", steps, result->steps));
    for (size_t e = 0; e < evidence.size(); ++e) {
      if (found[e] == evidence[e].rows[t]) continue;
      result->faults.push_back(fmt::format("table {}: of evidence at {} s, {} of {} rows are there", table_id,
                                           evidence[e].begin_ns / kNsPerSecond, found[e], evidence[e].rows[t]));
      if (result->faults.size() > 20) return;
    }
  }
  const uint64_t findings = CountRows(reader, TableId::kFinding, result, [](const Batch&, size_t) {});
  if (findings != result->findings)
    result->faults.push_back(fmt::format("{} of {} findings are there", findings, result->findings));
  const uint64_t clocks = CountRows(reader, TableId::kClockSample, result, [](const Batch&, size_t) {});
  if (clocks != result->steps) result->faults.push_back(fmt::format("{} of {} clock samples are there", clocks, result->steps));
}

double Mean(const ReplayResult& result, double from, double to, uint64_t ReplaySample::* member) {
  double sum = 0;
  size_t count = 0;
  for (size_t i = 0; i < result.samples.size(); ++i) {
    const double at = static_cast<double>(i) / static_cast<double>(result.samples.size());
    if (at < from || at >= to) continue;
    sum += static_cast<double>(result.samples[i].*member);
    ++count;
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

}  // namespace

ReplayResult Replay(const ReplayPlan& plan) {
  ReplayResult result;
  auto opened = Store::Open({.path = plan.directory, .max_bytes = plan.max_bytes});
  if (!opened.ok()) {
    result.faults.push_back(opened.status().ToString());
    return result;
  }
  const std::unique_ptr<Store> store = *std::move(opened);
  ReplayClock clock;
  ClockRegistry clocks;
  std::unique_ptr<Retention> retention;
  Pipeline::Options options;
  options.queue_rows = 20'000;  // a real source waits for its rows too
  options.admit = [&](uint64_t bytes) { retention->Admit(bytes); };
  Pipeline pipeline(store.get(), &clocks, &clock, options);
  Retention::Parts parts{store.get(),
                         &pipeline,
                         &clock,
                         [] { return std::vector<RetainedRun>{{kRun, false, true, {}}}; },
                         [] { return uint64_t{1} << 50; },
                         [&](RunId run) { pipeline.NoteEvicted(run); }};
  RetentionRules rules;
  rules.max_bytes = plan.max_bytes;
  rules.raw_ns = plan.raw_ns;
  retention = std::make_unique<Retention>(std::move(parts), rules);
  retention->Start();
  pipeline.Start();

  DiskWatch watch(plan.directory);
  Source source(plan, &clock, &pipeline);
  const auto started = std::chrono::steady_clock::now();
  const auto end_ns = kBootNs + static_cast<int64_t>(plan.days * 86'400e9);
  while (clock.now_ns < end_ns) {
    source.Step(&result);
    const double done = static_cast<double>(clock.now_ns - kBootNs) / static_cast<double>(end_ns - kBootNs);
    if (done * 100 < static_cast<double>(result.samples.size() + 1)) continue;
    result.samples.push_back({plan.days * done, DiskUse(plan.directory), RssBytes()});
    if (plan.progress) {
      fmt::print("{:5.2f} days: {:6.1f} MB on disk, {:5.1f} MB resident, {:5.1f} MB allocated\n", result.samples.back().days,
                 static_cast<double>(result.samples.back().disk_bytes) / 1e6,
                 static_cast<double>(result.samples.back().rss_bytes) / 1e6,
                 static_cast<double>(mallinfo2().uordblks + mallinfo2().hblkhd) / 1e6);
      fflush(stdout);
    }
  }
  if (const absl::Status drained = pipeline.Drain(); !drained.ok()) result.faults.push_back(drained.ToString());
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  retention->Stop();
  result.most_disk_bytes = watch.Stop();
  Account(TableReader(store.get(), &pipeline), pipeline, source, &result);
  pipeline.Stop();
  return result;
}

double MeanDisk(const ReplayResult& result, double from, double to) { return Mean(result, from, to, &ReplaySample::disk_bytes); }
double MeanRss(const ReplayResult& result, double from, double to) { return Mean(result, from, to, &ReplaySample::rss_bytes); }

std::vector<std::string> FlatnessFaults(const ReplayPlan& plan, const ReplayResult& result) {
  std::vector<std::string> faults;
  const auto cap = static_cast<double>(plan.max_bytes);
  if (static_cast<double>(result.most_disk_bytes) > cap + std::min(cap / 16, kMostSlackBytes)) {
    faults.push_back(fmt::format("the disk reached {} bytes of {}", result.most_disk_bytes, plan.max_bytes));
  }
  const double disk = MeanDisk(result, 0.75, 1) - MeanDisk(result, 0.5, 0.75);
  if (disk > cap / 10) faults.push_back(fmt::format("the disk grew by {:.0f} bytes in the second half", disk));
  const double rss = MeanRss(result, 0.75, 1) - MeanRss(result, 0.5, 0.75);
  if (rss > 8e6) faults.push_back(fmt::format("resident memory grew by {:.0f} bytes in the second half", rss));
  return faults;
}

}  // namespace stepscope
