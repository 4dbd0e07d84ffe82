// SPDX-License-Identifier: Apache-2.0
#include "analysis/span_totals.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

TEST(SpanTotals, ASpanBelongsToTheWindowItStartsIn) {
  Batch spans = Batch::For(TableId::kSpan, RunId{1});
  spans.Append(7, {10, 100, 3, 0, 0, 0, 0, 0, 0});
  spans.Append(7, {20, 40, 3, 0, 0, 0, 0, 0, 0});
  spans.Append(7, {50, 1, 3, 0, 0, 0, 0, 0, 0});
  SpanTotals totals({NodeTime{10}, NodeTime{50}});
  totals.Add(spans);
  const SpanTotal& total = totals.totals().at({3, 0, 7});
  EXPECT_EQ(total.count, 2u);
  EXPECT_EQ(total.total_ns, 140);
  EXPECT_EQ(total.min_ns, 40);
  EXPECT_EQ(total.max_ns, 100);
}

TEST(SpanTotals, SameNameInAnotherDomainIsAnotherSpan) {
  Batch spans = Batch::For(TableId::kSpan, RunId{1});
  spans.Append(7, {10, 5, 3, 0, 0, 0, 0, 0, 0});
  spans.Append(7, {20, 5, 3, 2, 0, 0, 0, 0, 0});
  SpanTotals totals({NodeTime{0}, NodeTime{50}});
  totals.Add(spans);
  EXPECT_EQ(totals.totals().size(), 2u);
}

}  // namespace
}  // namespace stepscope
