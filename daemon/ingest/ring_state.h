// SPDX-License-Identifier: Apache-2.0
// RingState: what the decoder must remember of one ring between two spans of its bytes. It is stored in the position row, in
// the same WriteBatch as the rows it led to, so a daemon that starts anew goes on exactly where the store stands.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace stepscope {

/// A nested span whose end has not been seen; its depth is its index in RingState::open.
struct OpenSpan {
  uint32_t name = 0;
  uint64_t ticks = 0;
  int64_t number = 0;
  bool has_number = false;
  friend bool operator==(const OpenSpan&, const OpenSpan&) = default;
};

/// A token whose end has not been seen. `tid` is the thread that opened it: the ring may have a new owner since.
struct OpenToken {
  OpenSpan span;
  int32_t tid = 0;
  friend bool operator==(const OpenToken&, const OpenToken&) = default;
};

struct RingState {
  int32_t tid = 0;  ///< owner, innermost
  uint64_t last_ticks = 0;
  uint64_t lost_records = 0;  ///< of this generation, told so far
  uint64_t lost_bytes = 0;
  uint64_t no_ring_lost = 0;  ///< ring 0: of the process, told so far
  uint64_t gil_begin = 0;     ///< futex words of the interpreter's lock, [begin, end); 0 = not published
  uint64_t gil_end = 0;
  std::vector<OpenSpan> open;
  std::map<uint64_t, OpenToken> tokens;
  std::map<uint64_t, uint64_t> token_ends;  ///< token → ticks of an end whose begin has not been seen
  friend bool operator==(const RingState&, const RingState&) = default;
};

std::string EncodeRingState(const RingState& state);
/// DATA_LOSS for bytes EncodeRingState of this or an older release did not write.
absl::StatusOr<RingState> ParseRingState(std::string_view bytes);

/// One entry of a ring's name dictionary, as SessionNameRow.value: {u8 domain, u8 flags, text}.
struct RingName {
  uint8_t domain = 0;
  uint8_t flags = 0;
  std::string text;
};
std::string EncodeRingName(const RingName& name);
absl::StatusOr<RingName> ParseRingName(std::string_view bytes);

}  // namespace stepscope
