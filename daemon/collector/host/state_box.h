// SPDX-License-Identifier: Apache-2.0
// StateBox: the state of one metric source, set by the sampler thread and read by any (`stepscope doctor`, /metrics).
#pragma once

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "daemon/collector/collector_state.h"

namespace stepscope {

class StateBox {
 public:
  CollectorState Get() const {
    const absl::MutexLock lock(&mutex_);
    return state_;
  }
  void Set(CollectorState state) {
    const absl::MutexLock lock(&mutex_);
    state_ = std::move(state);
  }

 private:
  mutable absl::Mutex mutex_;
  CollectorState state_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stepscope
