// SPDX-License-Identifier: Apache-2.0
// What the kernel counts of one thread since it began, from /proc/PID/task/TID/schedstat: readable for every visible process,
// without any right.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stepscope {

struct ThreadSums {
  int64_t running_ns = 0;   ///< on a CPU
  int64_t runnable_ns = 0;  ///< waited for one
  uint64_t turns = 0;       ///< times it came on a CPU
  ThreadSums& operator+=(const ThreadSums& other) {
    running_ns += other.running_ns;
    runnable_ns += other.runnable_ns;
    turns += other.turns;
    return *this;
  }
};

/// nullopt for text that is not three numbers.
std::optional<ThreadSums> ParseThreadSums(std::string_view text);

/// nullopt when the thread is gone or the kernel does not count. `proc` is the root of procfs.
std::optional<ThreadSums> ReadThreadSums(const std::string& proc, int32_t tgid, int32_t tid);

}  // namespace stepscope
