// SPDX-License-Identifier: Apache-2.0
// One Push call over one connection: HTTP/2 (nghttp2) below, ring spans out, acknowledgements in. It never touches the socket:
// the sender moves bytes between the two. All of its memory is one arena, taken anew at each connection. Sender thread only.
#pragma once

#include <nghttp2/nghttp2.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/arena.h"
#include "agent/core/ring_drain.h"
#include "agent/wire/push_message.h"

namespace stepscope::agent {

class PushStream {
 public:
  static constexpr size_t kArenaBytes = 512u << 10;

  // `memory` is kArenaBytes of 16-byte aligned memory, kept until the next Open. An empty nonce is left out of the metadata
  // (servers other than the daemon). False: the session could not be made.
  bool Open(void* memory, RingDrain* drain, const uint8_t* nonce, size_t nonce_bytes);

  // Bytes that came from the server. False: the stream is over or broken.
  bool Received(const uint8_t* bytes, size_t count);

  // What to send now: valid until the next call. 0 = nothing, negative = the session failed.
  long NextOutput(const uint8_t** bytes);

  // Tells that the drain may have new spans.
  void Resume();

  bool closed() const { return closed_; }
  // How the server ended the stream, as a state that the socket's path completes; nullptr if it did not say.
  const char* EndText() const;
  bool acknowledged() const { return acknowledged_; }  // at least one reply came
  const PushSettings& settings() const { return settings_; }

 private:
  static constexpr size_t kReplyMaxBytes = 16u << 10;

  static ssize_t ReadData(nghttp2_session*, int32_t, uint8_t* buffer, size_t capacity, uint32_t* flags,
                          nghttp2_data_source* source, void*);
  static int OnDataChunk(nghttp2_session*, uint8_t, int32_t, const uint8_t* data, size_t bytes, void* self);
  static int OnHeader(nghttp2_session*, const nghttp2_frame*, const uint8_t* name, size_t name_bytes, const uint8_t* value,
                      size_t value_bytes, uint8_t, void* self);
  static int OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* self);
  static int OnStreamClose(nghttp2_session*, int32_t, uint32_t, void* self);

  void TakeHeader(const uint8_t* name, size_t name_bytes, const uint8_t* value, size_t value_bytes);
  bool OpenSession();
  bool SubmitCall(const uint8_t* nonce, size_t nonce_bytes);
  size_t TakeOutgoing(uint8_t* buffer, size_t capacity);
  bool TakeReplyBytes(const uint8_t* data, size_t bytes);

  Arena arena_;
  nghttp2_session* session_ = nullptr;
  RingDrain* drain_ = nullptr;
  PushSettings settings_;
  int32_t stream_id_ = 0;
  bool closed_ = false;
  bool acknowledged_ = false;
  bool sent_away_ = false;  // GOAWAY
  int grpc_status_ = -1;    // of the trailers; -1: none came

  RingSpan span_ = {};  // being sent: its front, then its data
  uint8_t front_[64] = {};
  size_t front_bytes_ = 0;
  size_t front_sent_ = 0;
  uint64_t data_sent_ = 0;

  uint8_t reply_[kReplyMaxBytes] = {};  // being received
  size_t reply_bytes_ = 0;
};

}  // namespace stepscope::agent
