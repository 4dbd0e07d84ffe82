// SPDX-License-Identifier: Apache-2.0
// What ingest counts about itself, for `stepscope doctor` and /metrics.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace stepscope {

struct IngestNumbers {
  uint64_t sessions = 0;  ///< now
  uint64_t sessions_total = 0;
  uint64_t records = 0;
  uint64_t bytes = 0;           ///< of rings, pushed and salvaged
  uint64_t salvaged_bytes = 0;  ///< part of them the daemon read itself
  uint64_t malformed = 0;
  std::map<std::string, uint64_t> rejected;  ///< hellos and pushes, by reason with its numbers left out
};

/// Thread rule: any thread.
class IngestStats {
 public:
  void Update(const auto& change) {
    const std::lock_guard lock(mu_);
    change(numbers_);
  }
  /// A stranger chooses the numbers in a reason: left in, each would be a counter of its own, kept for ever.
  void Reject(const std::string& reason) {
    std::string kind;
    for (const char c : reason) {
      const bool digit = c >= '0' && c <= '9';
      if (!digit || kind.empty() || kind.back() != '#') kind += digit ? '#' : c;
    }
    Update([&](IngestNumbers& n) {
      const bool room = n.rejected.size() < kMostReasons || n.rejected.contains(kind);
      ++n.rejected[room ? kind : "other reasons"];
    });
  }
  IngestNumbers Get() const {
    const std::lock_guard lock(mu_);
    return numbers_;
  }

 private:
  static constexpr size_t kMostReasons = 64;

  mutable std::mutex mu_;
  IngestNumbers numbers_;
};

}  // namespace stepscope
