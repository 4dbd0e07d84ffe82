// SPDX-License-Identifier: Apache-2.0
#include "daemon/live/totals_proto.h"

#include "analysis/loss_text.h"

namespace stepscope {
namespace {

int64_t SumOrUnknown(int64_t a, int64_t b) { return a < 0 || b < 0 ? -1 : a + b; }

}  // namespace

void FillLoss(const RunTotals& totals, google::protobuf::RepeatedPtrField<v1::LossTotal>* loss) {
  for (const auto& [key, amount] : totals.loss) {
    v1::LossTotal* total = loss->Add();
    total->set_stage(LossStageText(key.stage));
    total->set_reason(LossReasonText(key.reason));
    total->set_table(LossTableText(key.table));
    total->set_count(amount.count);
    total->set_bytes(amount.bytes);
  }
}

void FillTables(const RunTotals& totals, google::protobuf::RepeatedPtrField<v1::TableCount>* tables) {
  for (const auto& [table, amount] : totals.tables) {
    v1::TableCount* count = tables->Add();
    count->set_table(LossTableText(static_cast<int64_t>(table)));
    count->set_rows(amount.rows);
    count->set_stored_bytes(amount.stored_bytes);
  }
}

void AddTotals(const RunTotals& other, RunTotals* totals) {
  for (const auto& [table, amount] : other.tables) {
    totals->tables[table].rows += amount.rows;
    totals->tables[table].stored_bytes += amount.stored_bytes;
  }
  for (const auto& [key, amount] : other.loss) {
    LossAmount& sum = totals->loss[key];
    sum = {SumOrUnknown(sum.count, amount.count), SumOrUnknown(sum.bytes, amount.bytes)};
  }
}

}  // namespace stepscope
