// SPDX-License-Identifier: Apache-2.0
// QueryBudget: how long one query may run, how many rows it may look at and how big its answer may be. A query that runs out
// stops and says so; it never takes the daemon with it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>

namespace stepscope {

/// Answers stay below the 4 MiB every stock gRPC client accepts.
constexpr uint64_t kMaxAnswerBytes = 3'500'000;
constexpr uint64_t kMaxRowsRead = 100'000'000;
constexpr std::chrono::seconds kMaxQueryTime{10};

class QueryBudget {
 public:
  /// `deadline` is the client's; the shorter of it and ten seconds counts. From here on a step of the wall clock changes nothing.
  QueryBudget(std::chrono::system_clock::time_point deadline, std::function<bool()> cancelled)
      : cancelled_(std::move(cancelled)), deadline_(std::chrono::steady_clock::now() + TimeLeft(deadline)) {}

  /// Call once a batch. False: stop.
  bool Spend(uint64_t rows) {
    rows_ += rows;
    exhausted_ = exhausted_ || rows_ > kMaxRowsRead || std::chrono::steady_clock::now() >= deadline_ || cancelled_();
    return !exhausted_;
  }
  bool exhausted() const { return exhausted_; }

 private:
  static std::chrono::nanoseconds TimeLeft(std::chrono::system_clock::time_point deadline) {
    const auto now = std::chrono::system_clock::now();
    return std::clamp<std::chrono::system_clock::time_point>(deadline, now, now + kMaxQueryTime) - now;
  }

  std::function<bool()> cancelled_;
  std::chrono::steady_clock::time_point deadline_;
  uint64_t rows_ = 0;
  bool exhausted_ = false;
};

}  // namespace stepscope
