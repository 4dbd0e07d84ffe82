// SPDX-License-Identifier: Apache-2.0
// RunEviction: removes blocks of one run from the store, oldest first, but for what is protected. A walk over a table begins
// where the last one ended, so each block is looked at once per step of the order (docs/retention.md).
//
//   blocks of a closed stretch ──Judge──► kept as they are | dropped | dropped, some rows kept in a block of the long stripe
//                                             └─ one WriteBatch: drops, kept rows, loss rows, cursor
//
// Thread rule: one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "analysis/evidence.h"
#include "daemon/pipeline/table_reader.h"
#include "daemon/retention/evicted_rows.h"
#include "storage/store.h"

namespace stepscope {

class BlockCover;

/// What a step of the order of eviction spares besides what is always kept.
enum class Spares { kAllEvidence, kFindingsAndOutliers, kNothing };
struct EvictionStep {
  bool uploaded_only;
  bool recent_too;  ///< rows of the last raw_minutes, but for the newest
  Spares spares;
};
/// First to last: a later one is taken only when the earlier ones leave too much.
inline constexpr std::array<EvictionStep, 5> kEvictionSteps = {{
    {true, false, Spares::kAllEvidence},
    {false, false, Spares::kAllEvidence},
    {false, false, Spares::kFindingsAndOutliers},
    {false, true, Spares::kFindingsAndOutliers},
    {false, true, Spares::kNothing},
}};
/// Tables in the order in which a step takes them. The first ones lose no row: their small blocks are merged.
inline constexpr std::array kEvictionTables = {
    TableId::kClockSample, TableId::kFinding,     TableId::kLostPart,   TableId::kLoss,  //
    TableId::kApiCall,     TableId::kStackSample, TableId::kSchedWait,  TableId::kSchedSlice,
    TableId::kCounter,     TableId::kSpan,        TableId::kCollective, TableId::kDeviceOp};

class RunEviction {
 public:
  struct Seams {
    Store* store;
    const RunDictionary* dictionary;
    /// After each commit that removed rows, for the totals of the run.
    std::function<void(RunId)> evicted;
  };
  RunEviction(Seams seams, RunId run, const EvidenceRules& rules);
  ~RunEviction();

  /// Reads what an earlier process left.
  absl::Status Load();
  /// Looks again at what others may have changed: uploads. Before a series of Evict.
  absl::Status Refresh();
  /// Evicts from slots before `limit` of `table` until `wanted` bytes are gone or this step finds no more; returns how many. Adds
  /// what it changed to `ranges`.
  absl::StatusOr<uint64_t> Evict(size_t step, TableId table, uint32_t limit, uint64_t wanted, std::vector<BlockRange>* ranges);

 private:
  struct Round;
  absl::StatusOr<Round> Collect(size_t step, TableId table, uint32_t limit, uint64_t wanted);
  absl::StatusOr<Round> CollectLong(size_t step, TableId table, uint32_t limit);
  void Judge(const BlockKey& key, std::string_view bytes, const EvictionStep& step, Round& round);
  absl::StatusOr<bool> IsProtected(NodeTime first, NodeTime last, const EvictionStep& step, Round& round) const;
  absl::StatusOr<const Evidence*> EvidenceOfHour(int64_t hour, Round& round) const;
  absl::StatusOr<std::vector<StepRow>> StepsAround(TimeRange hour) const;
  absl::StatusOr<std::vector<TimeRange>> FindingsAround(TimeRange hour) const;
  absl::Status Commit(Round& round);
  std::string EncodeCursors() const;
  uint32_t& Cursor(size_t step, TableId table) { return cursors_[step][table]; }
  void MoveCursor(size_t step, TableId table, uint32_t slot);

  const Seams seams_;
  const RunId run_;
  const EvidenceRules rules_;
  const TableReader reader_;
  EvictedRows evicted_;
  std::unique_ptr<BlockCover> uploaded_;
  std::array<std::map<TableId, uint32_t>, kEvictionSteps.size()> cursors_;
  std::map<std::pair<size_t, TableId>, uint32_t> long_limit_;  ///< limit when the long stripe was last looked at
  std::map<Uploaded, uint32_t> next_seq_;                      ///< of the blocks of kept rows
};

}  // namespace stepscope
