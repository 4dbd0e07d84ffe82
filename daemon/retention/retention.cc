// SPDX-License-Identifier: Apache-2.0
#include "daemon/retention/retention.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <tuple>

#include "base/status.h"
#include "storage/keys.h"

namespace stepscope {
namespace {

constexpr int kMostRounds = 16;
constexpr std::chrono::seconds kCheckEvery{10};  ///< others may fill the disk too
/// Files that compaction is about to replace are on disk twice for a moment, and so is what was just written: log and files.
constexpr uint64_t kMovedBytes = 16 << 20;
constexpr uint64_t kLeastAtOnce = 1 << 20;
/// The steps after these take what is promised to stay while there is room: the last minutes, evidence.
constexpr size_t kOrdinarySteps = 3;
/// For a file system that others fill, only what these steps of the order take: neither evidence nor the last minutes.
constexpr size_t kStepsForOthers = 2;
/// Rows of the last minute are never touched: some are still to come.
constexpr int64_t kNewestNs = 60 * kNsPerSecond;

}  // namespace

Retention::Retention(Parts parts, const RetentionRules& rules) : parts_(std::move(parts)), rules_(rules) {}
Retention::~Retention() { Stop(); }

void Retention::Start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "retention");
    Loop();
  });
}

void Retention::Stop() {
  {
    const std::lock_guard lock(mu_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Retention::Admit(uint64_t bytes) {
  std::unique_lock lock(mu_);
  unchecked_bytes_ += bytes;
  if (unchecked_bytes_ >= rules_.max_bytes / 64) changed_.notify_all();
  changed_.wait(lock, [&] { return stopping_ || unchecked_bytes_ < std::max(rules_.max_bytes / 16, bytes + 1); });
}

void Retention::Forget(RunId run) {
  const std::lock_guard lock(work_mu_);
  forgotten_.insert(run);
  evictions_.erase(run);
}

void Retention::Loop() {
  std::unique_lock lock(mu_);
  while (!stopping_) {
    const uint64_t looked_at = unchecked_bytes_;
    lock.unlock();
    if (const absl::Status status = Check(); !status.ok()) {
      spdlog::error("retention: {}; trying again in {} s", std::string(status.message()), kCheckEvery.count());
    }
    lock.lock();
    unchecked_bytes_ -= looked_at;
    changed_.notify_all();
    changed_.wait_for(lock, kCheckEvery, [&] { return stopping_ || unchecked_bytes_ >= rules_.max_bytes / 64; });
  }
}

Retention::Bounds Retention::BoundsNow(uint64_t used) const {
  const uint64_t free = parts_.free_bytes();
  const uint64_t room = used + free > rules_.min_free_bytes ? used + free - rules_.min_free_bytes : 0;
  const uint64_t most = std::min(rules_.max_bytes, room);
  const uint64_t high = most - std::min(most, most / 10 + kMovedBytes);
  return {.low = high - std::min(high, most / 10),
          .high = high,
          .most = most,
          .steps = room < rules_.max_bytes ? kStepsForOthers : kEvictionSteps.size()};
}

absl::Status Retention::Check() {
  bool last_resort = false;
  for (int round = 0; round < kMostRounds; ++round) {
    STEPSCOPE_ASSIGN_OR_RETURN(const uint64_t used, parts_.store->DiskBytes());
    const Bounds bounds = BoundsNow(used);
    if (used <= bounds.high) {
      told_ = false;
      return absl::OkStatus();
    }
    std::vector<BlockRange> ranges;
    uint64_t freed = 0;
    // The log and garbage of earlier go first: part of what is used may be theirs. Then a little at a time, and another look:
    // rows must not go for garbage. What is promised to stay goes only where the limit itself is passed by what is left.
    const uint64_t at_once = std::max(bounds.high - bounds.low, kLeastAtOnce);
    const bool passed = used > bounds.most;
    const size_t steps = last_resort && passed ? bounds.steps : std::min(bounds.steps, kOrdinarySteps);
    const uint64_t wanted = steps > kOrdinarySteps ? used - bounds.most : std::min(used - bounds.low, at_once);
    if (round > 0) {
      STEPSCOPE_ASSIGN_OR_RETURN(freed, EvictUpTo(wanted, steps, &ranges));
    }
    STEPSCOPE_RETURN_IF_ERROR(parts_.store->Reclaim(ranges));
    if (freed > 0 || round == 0) continue;
    if (!passed) return absl::OkStatus();
    if (std::exchange(last_resort, true)) {
      TellOnce(used, bounds);
      return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

void Retention::TellOnce(uint64_t used, const Bounds& bounds) {
  if (std::exchange(told_, true)) return;
  spdlog::warn(
      "retention: the store has {} MB, {} MB over its share, and all that is left is not evicted; delete a job, raise "
      "retain.max_bytes or free some of the disk",
      used / 1'000'000, (used - bounds.high) / 1'000'000);
}

/// Takes from the first step that has something, no more: the next look tells whether a later one is needed.
absl::StatusOr<uint64_t> Retention::EvictUpTo(uint64_t wanted, size_t steps, std::vector<BlockRange>* ranges) {
  std::vector<RetainedRun> runs = parts_.runs();
  std::sort(runs.begin(), runs.end(), [](const RetainedRun& a, const RetainedRun& b) {
    return std::tuple(!a.ended, a.end, a.run) < std::tuple(!b.ended, b.end, b.run);
  });
  {
    const std::lock_guard lock(work_mu_);
    for (auto& [run, eviction] : evictions_) STEPSCOPE_RETURN_IF_ERROR(eviction->Refresh());
  }
  uint64_t freed = 0;
  for (size_t step = 0; step < steps; ++step) {
    for (const RetainedRun& run : runs) {
      if (freed >= wanted) return freed;
      STEPSCOPE_ASSIGN_OR_RETURN(const uint64_t of_run, EvictFrom(run, step, wanted - freed, ranges));
      freed += of_run;
    }
    if (freed > 0) break;
  }
  return freed;
}

absl::StatusOr<uint64_t> Retention::EvictFrom(const RetainedRun& run, size_t step, uint64_t wanted,
                                              std::vector<BlockRange>* ranges) {
  uint64_t freed = 0;
  for (const TableId table : kEvictionTables) {
    if (freed >= wanted) break;
    const std::lock_guard lock(work_mu_);
    if (forgotten_.contains(run.run)) break;
    STEPSCOPE_ASSIGN_OR_RETURN(RunEviction* const eviction, EvictionOf(run.run));
    const auto of_table = eviction->Evict(step, table, LimitOf(run, kEvictionSteps[step]), wanted - freed, ranges);
    if (!of_table.ok()) {
      evictions_.erase(run.run);  // what it knows may be ahead of the store
      return of_table.status();
    }
    freed += *of_table;
  }
  return freed;
}

absl::StatusOr<RunEviction*> Retention::EvictionOf(RunId run) {
  if (const auto known = evictions_.find(run); known != evictions_.end()) return known->second.get();
  auto made =
      std::make_unique<RunEviction>(RunEviction::Seams{parts_.store, parts_.dictionary, parts_.evicted}, run, rules_.evidence);
  STEPSCOPE_RETURN_IF_ERROR(made->Load());
  STEPSCOPE_RETURN_IF_ERROR(made->Refresh());
  return (evictions_[run] = std::move(made)).get();
}

uint32_t Retention::LimitOf(const RetainedRun& run, const EvictionStep& step) const {
  if (!run.this_boot) return kLongSlot - 1;
  return SlotOf(parts_.clock->Node() + -(step.recent_too ? std::min(kNewestNs, rules_.raw_ns) : rules_.raw_ns));
}

}  // namespace stepscope
