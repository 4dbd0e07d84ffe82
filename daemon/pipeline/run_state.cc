// SPDX-License-Identifier: Apache-2.0
#include "daemon/pipeline/run_state.h"

#include <algorithm>

#include "base/status.h"
#include "daemon/pipeline/table_reader.h"
#include "stepscope/store/v1/store.pb.h"
#include "storage/keys.h"

namespace stepscope {

absl::StatusOr<std::map<TableId, LossAmount>> LoadEvicted(const Store& store, RunId run) {
  std::map<TableId, LossAmount> evicted;
  STEPSCOPE_RETURN_IF_ERROR(ForEachEvicted(store, run, [&](bool, const Batch& loss) {
    for (size_t row = 0; row < loss.rows(); ++row) {
      LossAmount& amount = evicted[static_cast<TableId>(loss.columns[loss_column::kTable][row])];
      amount.count += loss.columns[loss_column::kCount][row];
      amount.bytes += loss.columns[loss_column::kBytes][row];
    }
  }));
  return evicted;
}

absl::StatusOr<std::unique_ptr<RunState>> RunState::Load(const Store& store, RunId run) {
  STEPSCOPE_ASSIGN_OR_RETURN(const uint32_t next_seq, store.NextSeq(run, kShard));
  auto state = std::make_unique<RunState>(run, next_seq, [&store, run](uint32_t minute) {
    std::string value;
    store
        .ForEachRollup(run, minute, minute,
                       [&](uint32_t, std::string_view bytes) {
                         value = bytes;
                         return false;
                       })
        .IgnoreError();  // an unreadable minute starts at zero; its rows are still there
    return value;
  });
  STEPSCOPE_RETURN_IF_ERROR(store.ForEachName(run, [&](NameId id, std::string_view text) {
    state->names.Load(id, text);
    return true;
  }));
  STEPSCOPE_RETURN_IF_ERROR(store.ForEachMeta(RunMetaKind("entity", run), [&](std::string_view id, std::string_view value) {
    if (auto entity = DecodeEntity(value); entity.ok()) state->entities.Load(EntityOfMetaId(id), *entity);
    return true;
  }));
  STEPSCOPE_ASSIGN_OR_RETURN(const auto totals, store.GetMeta("totals", RunMetaId(run)));
  if (totals) state->totals = DecodeTotals(*totals);
  STEPSCOPE_ASSIGN_OR_RETURN(state->evicted, LoadEvicted(store, run));
  return state;
}

RunTotals WithEvicted(RunTotals totals, const std::map<TableId, LossAmount>& evicted) {
  for (const auto& [table, amount] : evicted) {
    totals.loss[{static_cast<int64_t>(LossStage::kRetention), static_cast<int64_t>(LossReason::kEvicted),
                 static_cast<int64_t>(table)}] = amount;
    uint64_t& stored = totals.tables[table].stored_bytes;
    stored -= std::min(stored, static_cast<uint64_t>(amount.bytes));
  }
  return totals;
}

EntityId RunState::ProcessOf(uint32_t lane) {
  const auto [known, is_new] = process_of_.try_emplace(lane);
  if (is_new) known->second = FindProcessOf(lane);
  return known->second;
}

EntityId RunState::FindProcessOf(uint32_t lane) {
  const EntityKey key = entities.Find(EntityId{lane}).key;
  switch (key.kind) {
    case EntityKind::kProcess:
      return EntityId{lane};
    case EntityKind::kThread:
    case EntityKind::kMetric:
      if (key.a == 0) return {};  // a metric of the node
      return entities.Intern({EntityKind::kProcess, key.a, key.b, 0, ""});
    default:
      return {};
  }
}

std::string EncodeTotals(const RunTotals& totals) {
  store::v1::RunRecord record;
  for (const auto& [table, total] : totals.tables) {
    auto* row = record.add_tables();
    row->set_table(static_cast<uint32_t>(table));
    row->set_rows(total.rows);
    row->set_stored_bytes(total.stored_bytes);
  }
  for (const auto& [key, amount] : totals.loss) {
    auto* row = record.add_loss();
    row->set_stage(key.stage);
    row->set_reason(key.reason);
    row->set_table(key.table);
    row->set_count(amount.count);
    row->set_bytes(amount.bytes);
  }
  return record.SerializeAsString();
}

RunTotals DecodeTotals(std::string_view bytes) {
  RunTotals totals;
  store::v1::RunRecord record;
  if (!record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return totals;
  for (const auto& row : record.tables()) {
    totals.tables[static_cast<TableId>(row.table())] = {row.rows(), row.stored_bytes()};
  }
  for (const auto& row : record.loss()) {
    totals.loss[{row.stage(), row.reason(), row.table()}] = {row.count(), row.bytes()};
  }
  return totals;
}

}  // namespace stepscope
