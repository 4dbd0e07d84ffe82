// SPDX-License-Identifier: Apache-2.0
#include "agent/wire/push_message.h"

#include <pb_decode.h>
#include <pb_encode.h>

#include "nanopb/stepscope/v1/agent.pb.h"

namespace stepscope::agent {
namespace {

constexpr uint32_t kDataTag = 5;  // PushRequest.data, left out of the generated struct

bool DecodePosition(pb_istream_t* stream, const pb_field_t*, void** drain) {
  stepscope_v1_RingPosition position = stepscope_v1_RingPosition_init_zero;
  if (!pb_decode(stream, stepscope_v1_RingPosition_fields, &position)) return false;
  static_cast<RingDrain*>(*drain)->Stored(position.ring, position.generation, position.position);
  return true;
}

}  // namespace

size_t WriteRequestFront(const RingSpan& span, uint8_t* out, size_t capacity) {
  const uint64_t data_bytes = span.to - span.from;
  stepscope_v1_PushRequest request = stepscope_v1_PushRequest_init_zero;
  request.ring = span.ring;
  request.generation = span.generation;
  request.from = span.from;
  request.to = span.to;
  pb_ostream_t stream = pb_ostream_from_buffer(out + kMessagePrefixBytes, capacity - kMessagePrefixBytes);
  if (!pb_encode(&stream, stepscope_v1_PushRequest_fields, &request) || !pb_encode_tag(&stream, PB_WT_STRING, kDataTag) ||
      !pb_encode_varint(&stream, data_bytes)) {
    return 0;
  }
  const uint64_t message_bytes = stream.bytes_written + data_bytes;
  out[0] = 0;
  for (int i = 0; i < 4; ++i) out[1 + i] = static_cast<uint8_t>(message_bytes >> (24 - 8 * i));
  return kMessagePrefixBytes + stream.bytes_written;
}

bool ApplyReply(const uint8_t* message, size_t bytes, RingDrain* drain, PushSettings* settings) {
  stepscope_v1_PushReply reply = stepscope_v1_PushReply_init_zero;
  reply.stored.funcs.decode = DecodePosition;
  reply.stored.arg = drain;
  pb_istream_t stream = pb_istream_from_buffer(message, bytes);
  if (!pb_decode(&stream, stepscope_v1_PushReply_fields, &reply)) return false;
  if (reply.has_config) {
    const PushSettings defaults;
    settings->stop = reply.config.stop;
    settings->interval_ms = reply.config.push_interval_ms != 0 ? reply.config.push_interval_ms : defaults.interval_ms;
    settings->push_bytes = reply.config.push_bytes != 0 ? reply.config.push_bytes : defaults.push_bytes;
  }
  return true;
}

}  // namespace stepscope::agent
