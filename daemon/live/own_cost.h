// SPDX-License-Identifier: Apache-2.0
// What the daemon itself costs, since its start.
#pragma once

#include <cstdint>

namespace stepscope {

struct OwnCost {
  int64_t cpu_ns = 0;      ///< user + system time of all its threads
  uint64_t rss_bytes = 0;  ///< resident now
};
OwnCost ReadOwnCost();

}  // namespace stepscope
