// SPDX-License-Identifier: Apache-2.0
// RunTotals as answers carry them.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include "daemon/pipeline/run_totals.h"
#include "stepscope/v1/types.pb.h"

namespace stepscope {

void FillLoss(const RunTotals& totals, google::protobuf::RepeatedPtrField<v1::LossTotal>* loss);
void FillTables(const RunTotals& totals, google::protobuf::RepeatedPtrField<v1::TableCount>* tables);

/// Adds `other` to `totals`; an unknown amount (-1) makes the sum unknown.
void AddTotals(const RunTotals& other, RunTotals* totals);

}  // namespace stepscope
