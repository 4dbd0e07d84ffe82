// SPDX-License-Identifier: Apache-2.0
// The collectors a configuration asks for. Called once, by the daemon's wiring.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "daemon/collector/host/metric_source.h"
#include "daemon/collector/slice_source.h"
#include "daemon/collector/task_observer.h"
#include "daemon/config.h"
#include "daemon/pipeline/delivery.h"

namespace stepscope {

/// The best level of CPU scheduling to be had here; null if it is switched off. The arguments outlive it.
std::unique_ptr<SliceSource> SliceSourceFrom(const Config& config, DeliverySink* sink, TaskObserver* observer, const Clock* clock,
                                             std::function<bool()> watched);

std::vector<std::unique_ptr<MetricSource>> MetricSourcesFrom(const Config& config);

}  // namespace stepscope
