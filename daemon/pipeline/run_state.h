// SPDX-License-Identifier: Apache-2.0
// RunState: everything the pipeline keeps in memory of one run: dictionaries, open blocks, roll-ups, totals.
//
// Thread rule: guarded by the pipeline's mutex.
#pragma once

#include <map>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "daemon/pipeline/open_block.h"
#include "daemon/pipeline/rollup.h"
#include "daemon/pipeline/run_totals.h"
#include "storage/store.h"
#include "trace/intern.h"

namespace stepscope {

constexpr uint16_t kShard = 0;

struct RunState {
  RunState(RunId run, uint32_t next_seq, std::function<std::string(uint32_t)> load_minute)
      : open(run, kShard, next_seq), rollup(run, std::move(load_minute)) {}

  /// The run as the store knows it: names, entities, totals, next block number.
  static absl::StatusOr<std::unique_ptr<RunState>> Load(const Store& store, RunId run);

  /// The process an entity belongs to: itself, or the process of a thread or metric; 0 = none.
  EntityId ProcessOf(uint32_t lane);

  NameTable names;
  EntityTable entities;
  OpenBlocks open;
  Rollup rollup;
  RunTotals totals;
  bool totals_dirty = false;
  std::map<TableId, LossAmount> evicted;  ///< by retention, which stores its own loss rows

 private:
  EntityId FindProcessOf(uint32_t lane);

  absl::flat_hash_map<uint32_t, EntityId> process_of_;  ///< what ProcessOf() said: keys of entities never change
};

/// What retention removed from the run, as its loss rows in the store say.
absl::StatusOr<std::map<TableId, LossAmount>> LoadEvicted(const Store& store, RunId run);
/// `totals` as views show them: with what was evicted as loss, and less stored.
RunTotals WithEvicted(RunTotals totals, const std::map<TableId, LossAmount>& evicted);

/// Meta rows of kind "totals": a RunRecord with only tables and loss.
std::string EncodeTotals(const RunTotals& totals);
RunTotals DecodeTotals(std::string_view bytes);

}  // namespace stepscope
