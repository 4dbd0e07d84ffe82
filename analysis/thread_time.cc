// SPDX-License-Identifier: Apache-2.0
#include "analysis/thread_time.h"

#include <algorithm>

namespace stepscope {
namespace {

constexpr int64_t kStateMask = 0xFF;

bool WantedToGoOn(int64_t state) {
  const auto end = static_cast<SliceState>(state & kStateMask);
  return end == SliceState::kRunnable || end == SliceState::kPreempted || end == SliceState::kThrottled;
}

}  // namespace

int64_t ThreadTime::SleepingNs(TimeRange window, NodeTime alive_since, NodeTime alive_until) const {
  const int64_t from = born ? first.ns : std::min(first.ns, alive_since.ns);
  const int64_t to = dead ? last.ns : std::max(last.ns, alive_until.ns);
  return std::max<int64_t>(0, window.Clip(from, to) - running_ns - runnable_ns);
}

void ThreadTimes::Add(const Batch& slices) {
  Books* books = nullptr;
  uint32_t books_lane = 0;
  for (size_t row = 0; row < slices.rows(); ++row) {
    const int64_t on = slices.columns[slice_column::kOn][row];
    const int64_t off = on + slices.columns[slice_column::kDur][row];
    const int64_t runnable = on - slices.columns[slice_column::kWait][row];
    if (off <= window_.begin.ns || runnable >= window_.end.ns) continue;
    if (books == nullptr || books_lane != slices.lane[row]) {
      books_lane = slices.lane[row];
      books = &books_[books_lane];
    }
    AddRow(*books, slices, row);
  }
}

void ThreadTimes::AddRow(Books& books, const Batch& slices, size_t row) const {
  ThreadTime& time = books.time;
  const int64_t on = slices.columns[slice_column::kOn][row];
  const int64_t off = on + slices.columns[slice_column::kDur][row];
  const int64_t runnable = on - slices.columns[slice_column::kWait][row];
  const int64_t state = slices.columns[slice_column::kState][row];
  const bool first_row = time.last.ns == 0;
  time.running_ns += window_.Clip(on, off);
  time.runnable_ns += window_.Clip(runnable, on);
  time.first.ns = first_row ? runnable : std::min(time.first.ns, runnable);
  time.last.ns = std::max(time.last.ns, off);
  time.born |= (state & kSliceFirst) != 0;
  time.dead |= (state & kStateMask) == static_cast<int64_t>(SliceState::kDead);
  if (off <= window_.end.ns) CountTurn(books, slices, row);
}

void ThreadTimes::CountTurn(Books& books, const Batch& slices, size_t row) {
  ThreadTime& time = books.time;
  const auto seq = static_cast<uint32_t>(slices.columns[slice_column::kSeq][row]);
  if (time.slices == 0) books.some_seq = seq;
  const int64_t delta = static_cast<int32_t>(seq - books.some_seq);
  books.min_seq_delta = std::min(books.min_seq_delta, delta);
  books.max_seq_delta = std::max(books.max_seq_delta, delta);
  ++time.slices;
  time.preempted += WantedToGoOn(slices.columns[slice_column::kState][row]) ? 1 : 0;
  time.exec_ns += slices.columns[slice_column::kExec][row];
  time.rq_wait_ns += slices.columns[slice_column::kRqWait][row];
  time.max_wait_ns = std::max(time.max_wait_ns, slices.columns[slice_column::kWait][row]);
}

std::unordered_map<uint32_t, ThreadTime> ThreadTimes::Finish() const {
  std::unordered_map<uint32_t, ThreadTime> times;
  for (const auto& [lane, books] : books_) {
    ThreadTime time = books.time;
    const auto turns = static_cast<int64_t>(time.slices);
    if (turns > 0)
      time.seq_holes = static_cast<uint64_t>(std::max<int64_t>(0, books.max_seq_delta - books.min_seq_delta + 1 - turns));
    times.emplace(lane, time);
  }
  return times;
}

}  // namespace stepscope
