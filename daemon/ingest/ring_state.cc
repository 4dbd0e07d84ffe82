// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/ring_state.h"

#include "contract/ring.h"
#include "trace/varint.h"

namespace stepscope {
namespace {

constexpr uint64_t kVersion = 1;

void AppendSpan(std::string& out, const OpenSpan& span) {
  AppendVarint(out, span.name);
  AppendVarint(out, span.ticks);
  AppendVarint(out, span.has_number ? 1 : 0);
  if (span.has_number) AppendVarint(out, ZigZag(span.number));
}

OpenSpan NextSpan(VarintReader& in) {
  OpenSpan span;
  span.name = static_cast<uint32_t>(in.Next());
  span.ticks = in.Next();
  span.has_number = in.Next() != 0;
  if (span.has_number) span.number = in.NextSigned();
  return span;
}

/// Reads a count of elements of at least one byte each; 0 and a failed reader when there cannot be that many.
uint64_t NextCount(VarintReader& in) {
  const uint64_t count = in.Next();
  if (count <= in.left()) return count;
  in.Take(in.left() + 1);
  return 0;
}

}  // namespace

std::string EncodeRingState(const RingState& state) {
  std::string out;
  AppendVarint(out, kVersion);
  AppendVarint(out, ZigZag(state.tid));
  for (uint64_t value :
       {state.last_ticks, state.lost_records, state.lost_bytes, state.no_ring_lost, state.gil_begin, state.gil_end}) {
    AppendVarint(out, value);
  }
  AppendVarint(out, state.open.size());
  for (const OpenSpan& span : state.open) AppendSpan(out, span);
  AppendVarint(out, state.tokens.size());
  for (const auto& [token, open] : state.tokens) {
    AppendVarint(out, token);
    AppendVarint(out, ZigZag(open.tid));
    AppendSpan(out, open.span);
  }
  AppendVarint(out, state.token_ends.size());
  for (const auto& [token, ticks] : state.token_ends) {
    AppendVarint(out, token);
    AppendVarint(out, ticks);
  }
  return out;
}

absl::StatusOr<RingState> ParseRingState(std::string_view bytes) {
  VarintReader in(bytes);
  if (in.Next() != kVersion) return absl::DataLossError("ring state of another version; open spans of that ring are lost");
  RingState state;
  state.tid = static_cast<int32_t>(in.NextSigned());
  for (uint64_t* value :
       {&state.last_ticks, &state.lost_records, &state.lost_bytes, &state.no_ring_lost, &state.gil_begin, &state.gil_end}) {
    *value = in.Next();
  }
  for (uint64_t left = NextCount(in); left > 0 && in.ok(); --left) state.open.push_back(NextSpan(in));
  for (uint64_t left = NextCount(in); left > 0 && in.ok(); --left) {
    const uint64_t token = in.Next();
    const auto tid = static_cast<int32_t>(in.NextSigned());
    state.tokens[token] = {NextSpan(in), tid};
  }
  for (uint64_t left = NextCount(in); left > 0 && in.ok(); --left) {
    const uint64_t token = in.Next();
    state.token_ends[token] = in.Next();
  }
  if (!in.ok()) return absl::DataLossError("ring state ends early; open spans of that ring are lost");
  return state;
}

std::string EncodeRingName(const RingName& name) {
  std::string out{static_cast<char>(name.domain), static_cast<char>(name.flags)};
  return out + name.text;
}

absl::StatusOr<RingName> ParseRingName(std::string_view bytes) {
  if (bytes.size() < 2) return absl::DataLossError("name row of a session is too short");
  return RingName{static_cast<uint8_t>(bytes[0]), static_cast<uint8_t>(bytes[1]), std::string(bytes.substr(2))};
}

}  // namespace stepscope
