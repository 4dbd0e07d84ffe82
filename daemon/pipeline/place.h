// SPDX-License-Identifier: Apache-2.0
// The place stage: from the readings of a batch's clock to node time.
//
// Until it ran, a batch whose clock is not 0 holds in column kDur of the span and loss tables the reading at the END of the
// interval, not a length: both ends are placed on their own and then subtracted, so a change of slope inside a span is right.
#pragma once

#include <cstddef>
#include <limits>

#include "daemon/pipeline/clock_registry.h"
#include "trace/batch.h"

namespace stepscope {

/// Maps the kTime columns of `batch` (and the end readings above) to node time and sets its clock to 0. Rows that cannot be
/// placed, that lie behind `latest`, or whose end lies before their start by more than the clock error, are removed; returns how
/// many.
size_t PlaceBatch(Batch& batch, const ClockRegistry& clocks, NodeTime latest = {std::numeric_limits<int64_t>::max()});

}  // namespace stepscope
