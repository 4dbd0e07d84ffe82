// SPDX-License-Identifier: Apache-2.0
#include "analysis/thread_turns.h"

#include <algorithm>

namespace stepscope {
namespace {

constexpr int64_t kStateMask = 0xFF;

Turn TurnOf(const Batch& slices, size_t row) {
  const auto& c = slices.columns;
  Turn turn;
  turn.on.ns = c[slice_column::kOn][row];
  turn.off = turn.on + c[slice_column::kDur][row];
  turn.wait_ns = c[slice_column::kWait][row];
  turn.arg0 = static_cast<uint64_t>(c[slice_column::kArg0][row]);
  turn.waker.value = static_cast<int32_t>(c[slice_column::kWaker][row]);
  turn.waker_kind = static_cast<WakerKind>(c[slice_column::kWakerKind][row]);
  turn.state = static_cast<SliceState>(c[slice_column::kState][row] & kStateMask);
  turn.syscall = static_cast<int16_t>(c[slice_column::kSyscall][row]);
  turn.seq = static_cast<uint32_t>(c[slice_column::kSeq][row]);
  return turn;
}

}  // namespace

void ThreadTurns::Add(const Batch& slices, TimeRange ended_in) {
  std::vector<Turn>* turns = nullptr;
  uint32_t lane = 0;
  for (size_t row = 0; row < slices.rows(); ++row) {
    const int64_t off = slices.columns[slice_column::kOn][row] + slices.columns[slice_column::kDur][row];
    if (off <= ended_in.begin.ns || off > ended_in.end.ns) continue;
    if (turns == nullptr || lane != slices.lane[row]) {
      lane = slices.lane[row];
      turns = &lanes_[lane];
    }
    turns->push_back(TurnOf(slices, row));
    ++turns_;
  }
}

void ThreadTurns::Sort() {
  for (auto& [lane, turns] : lanes_) {
    std::sort(turns.begin(), turns.end(), [](const Turn& a, const Turn& b) { return a.on < b.on; });
  }
}

void ThreadTurns::KeepLast() {
  for (auto& [lane, turns] : lanes_) turns.erase(turns.begin(), turns.end() - 1);
  turns_ = lanes_.size();
}

}  // namespace stepscope
