// SPDX-License-Identifier: Apache-2.0
// IntervalSum: how much of a range is covered by a set of half-open intervals. Nested and overlapping intervals count once.
// Add everything, Seal once, then ask as often as needed: O(log n) an answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stepscope {

class IntervalSum {
 public:
  /// A reversed or empty interval adds nothing.
  void Add(int64_t begin_ns, int64_t end_ns);
  /// Sorts and merges. Required after the last Add and before the first question.
  void Seal();
  int64_t TotalNs() const { return covered_before_.empty() ? 0 : covered_before_.back() + Length(intervals_.size() - 1); }
  /// Covered nanoseconds inside [begin_ns, end_ns).
  int64_t OverlapNs(int64_t begin_ns, int64_t end_ns) const;

 private:
  struct Interval {
    int64_t begin;
    int64_t end;
  };
  int64_t Length(std::size_t i) const { return intervals_[i].end - intervals_[i].begin; }
  int64_t CoveredBelow(int64_t time_ns) const;

  std::vector<Interval> intervals_;      ///< disjoint and ascending once sealed
  std::vector<int64_t> covered_before_;  ///< sum of the lengths of all intervals before this one
};

}  // namespace stepscope
