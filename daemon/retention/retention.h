// SPDX-License-Identifier: Apache-2.0
// Retention keeps the store within its disk: it looks at the files whenever some has been written, and evicts raw rows when they
// are too large, in the order docs/retention.md names, until there is room for a while again.
//
//   used    0 ───────── low (80 %) ─────── high (90 %) ── max_bytes      both 16 MiB less, which small stores notice
//                         ▲ evict down to     ▲ evict from here on
//
// The pipeline asks Admit() before each commit. It waits there while a sixteenth of max_bytes was written since Retention looked
// last, so the store cannot outrun it: queues fill and sources are held back.
//
// Thread rule: any thread; the work happens on one "retention" thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "daemon/retention/run_eviction.h"

namespace stepscope {

struct RetentionRules {
  uint64_t max_bytes = 0;       ///< of the store's files
  uint64_t min_free_bytes = 0;  ///< of the file system, kept free for others
  int64_t raw_ns = 1800 * kNsPerSecond;
  EvidenceRules evidence;
};

/// A run and what decides its turn.
struct RetainedRun {
  RunId run;
  bool ended = false;
  bool this_boot = true;  ///< node time of another boot is older than anything of this one
  WallTime end;
};

class Retention {
 public:
  struct Parts {
    Store* store;
    const RunDictionary* dictionary;
    const Clock* clock;
    std::function<std::vector<RetainedRun>()> runs;
    std::function<uint64_t()> free_bytes;  ///< of the store's file system
    std::function<void(RunId)> evicted;    ///< after rows of it were removed
  };
  Retention(Parts parts, const RetentionRules& rules);
  ~Retention();

  void Start();
  /// Lets everybody pass who waits in Admit().
  void Stop();
  /// `bytes` are about to be written. Waits for room to be made, not for room: what cannot be evicted is let in.
  void Admit(uint64_t bytes);
  /// A run is being deleted: leave it alone.
  void Forget(RunId run);
  /// Looks once, on the caller's thread.
  absl::Status Check();

 private:
  struct Bounds {
    uint64_t low = 0;   ///< to get down to
    uint64_t high = 0;  ///< where eviction begins
    uint64_t most = 0;  ///< the limit itself
    size_t steps = 0;   ///< of kEvictionSteps that may be taken for it
  };
  void Loop();
  Bounds BoundsNow(uint64_t used) const;
  void TellOnce(uint64_t used, const Bounds& bounds);
  absl::StatusOr<uint64_t> EvictUpTo(uint64_t wanted, size_t steps, std::vector<BlockRange>* ranges);
  absl::StatusOr<uint64_t> EvictFrom(const RetainedRun& run, size_t step, uint64_t wanted, std::vector<BlockRange>* ranges);
  absl::StatusOr<RunEviction*> EvictionOf(RunId run);
  uint32_t LimitOf(const RetainedRun& run, const EvictionStep& step) const;

  const Parts parts_;
  const RetentionRules rules_;
  bool told_ = false;  ///< that nothing more can be evicted; retention thread only

  std::mutex work_mu_;  ///< guards what follows; held over one walk of one table
  std::map<RunId, std::unique_ptr<RunEviction>> evictions_;
  std::set<RunId> forgotten_;

  std::mutex mu_;  ///< guards what follows
  std::condition_variable changed_;
  uint64_t unchecked_bytes_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace stepscope
