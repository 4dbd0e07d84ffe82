// SPDX-License-Identifier: Apache-2.0
// What a followed thread is doing right now. Live only: the row that ends it is what is kept.
#pragma once

#include <cstdint>
#include <string>

#include "base/ids.h"
#include "base/time.h"
#include "trace/batch.h"
#include "trace/schema.h"

namespace stepscope {

struct OpenTurn {
  enum class Doing { kRunning, kRunnable, kOff };

  RunId run;
  EntityKey thread;  ///< kThread
  std::string comm;
  Doing doing = Doing::kOff;
  NodeTime since;                           ///< in this state; 0 = not known
  SliceState state = SliceState::kBlocked;  ///< kOff: how its last turn ended
  int32_t syscall = -1;                     ///< nr it is blocked in; -1 = none
  int64_t arg0 = 0;                         ///< first argument of that
  int32_t cpu = 0;                          ///< where it runs or ran last
};

}  // namespace stepscope
