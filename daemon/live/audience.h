// SPDX-License-Identifier: Apache-2.0
// Audience: whether somebody looks at the daemon's data now. While nobody does, rows travel in fewer and larger steps: each
// wake-up of a thread costs the job more than the rows it moves.
//
// Thread rule: any thread.
#pragma once

#include <atomic>

#include "base/time.h"

namespace stepscope {

class Audience {
 public:
  /// `clock` outlives it.
  explicit Audience(const Clock* clock) : clock_(clock) {}
  /// Somebody asks, or is being told.
  void Look() { looked_ns_ = clock_->Node().ns; }
  bool IsThere() const { return clock_->Node().ns - looked_ns_ < kStaysNs; }

 private:
  static constexpr int64_t kStaysNs = 5 * kNsPerSecond;
  const Clock* const clock_;
  std::atomic<int64_t> looked_ns_{-kStaysNs};
};

}  // namespace stepscope
