// SPDX-License-Identifier: Apache-2.0
#include "agent/wire/push_stream.h"

#include <string.h>

#include "agent/wire/nghttp2_memory.h"

namespace stepscope::agent {
namespace {

// Of the status codes of gRPC (its doc/statuscodes.md), those that are states of their own.
enum GrpcStatus { kPermissionDenied = 7, kResourceExhausted = 8, kUnimplemented = 12, kUnavailable = 14, kUnauthenticated = 16 };

nghttp2_nv Field(const char* name, const char* value, size_t value_bytes) {
  return {const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(name)),
          const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(value)), strlen(name), value_bytes, NGHTTP2_NV_FLAG_NO_INDEX};
}

nghttp2_nv Field(const char* name, const char* value) { return Field(name, value, strlen(value)); }

// Unpadded, as gRPC sends "-bin" metadata.
size_t Base64(const uint8_t* bytes, size_t count, char* out) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  size_t written = 0;
  for (size_t i = 0; i < count; i += 3) {
    size_t left = count - i;
    uint32_t group = static_cast<uint32_t>(bytes[i]) << 16 | (left > 1 ? static_cast<uint32_t>(bytes[i + 1]) << 8 : 0) |
                     (left > 2 ? bytes[i + 2] : 0);
    size_t digits = left > 2 ? 4 : left + 1;
    for (size_t d = 0; d < digits; ++d) out[written++] = kDigits[group >> (18 - 6 * d) & 63];
  }
  return written;
}

bool Is(const uint8_t* text, size_t bytes, const char* wanted) {
  return bytes == strlen(wanted) && memcmp(text, wanted, bytes) == 0;
}

void* Allocate(size_t bytes, void* arena) { return static_cast<Arena*>(arena)->Allocate(bytes); }
void Free(void* piece, void* arena) { static_cast<Arena*>(arena)->Free(piece); }
void* AllocateZeroed(size_t count, size_t bytes, void* arena) { return static_cast<Arena*>(arena)->AllocateZeroed(count, bytes); }
void* Reallocate(void* piece, size_t bytes, void* arena) { return static_cast<Arena*>(arena)->Reallocate(piece, bytes); }

}  // namespace

bool PushStream::Open(void* memory, RingDrain* drain, const uint8_t* nonce, size_t nonce_bytes) {
  arena_.Reset(memory, kArenaBytes);
  session_ = nullptr;
  drain_ = drain;
  settings_ = PushSettings{};
  closed_ = false;
  acknowledged_ = false;
  sent_away_ = false;
  grpc_status_ = -1;
  span_ = {};
  front_bytes_ = front_sent_ = 0;
  data_sent_ = 0;
  reply_bytes_ = 0;
  return OpenSession() && SubmitCall(nonce, nonce_bytes);
}

bool PushStream::OpenSession() {
  UseArenaForNghttp2(&arena_);
  nghttp2_session_callbacks* callbacks;
  if (nghttp2_session_callbacks_new(&callbacks) != 0) return false;
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, OnDataChunk);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, OnHeader);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, OnFrame);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, OnStreamClose);
  nghttp2_mem memory{&arena_, Allocate, Free, AllocateZeroed, Reallocate};
  int result = nghttp2_session_client_new3(&session_, callbacks, this, nullptr, &memory);
  nghttp2_session_callbacks_del(callbacks);
  if (result != 0) return false;
  const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 0}, {NGHTTP2_SETTINGS_ENABLE_PUSH, 0}};
  return nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, 2) == 0;
}

bool PushStream::SubmitCall(const uint8_t* nonce, size_t nonce_bytes) {
  char nonce_text[32];
  const nghttp2_nv fields[] = {Field(":method", "POST"),
                               Field(":scheme", "http"),
                               Field(":path", "/stepscope.v1.AgentService/Push"),
                               Field(":authority", "localhost"),
                               Field("te", "trailers"),
                               Field("content-type", "application/grpc"),
                               Field("user-agent", "stepscope-agent/1"),
                               Field("stepscope-nonce-bin", nonce_text, Base64(nonce, nonce_bytes, nonce_text))};
  const size_t all = sizeof(fields) / sizeof(fields[0]);
  nghttp2_data_provider provider{};
  provider.source.ptr = this;
  provider.read_callback = ReadData;
  stream_id_ = nghttp2_submit_request(session_, nullptr, fields, nonce_bytes != 0 ? all : all - 1, &provider, nullptr);
  return stream_id_ > 0;
}

long PushStream::NextOutput(const uint8_t** bytes) { return nghttp2_session_mem_send(session_, bytes); }

void PushStream::Resume() {
  if (!settings_.stop) nghttp2_session_resume_data(session_, stream_id_);
}

bool PushStream::Received(const uint8_t* bytes, size_t count) {
  ssize_t used = nghttp2_session_mem_recv(session_, bytes, count);
  return used == static_cast<ssize_t>(count) && !closed_;
}

ssize_t PushStream::ReadData(nghttp2_session*, int32_t, uint8_t* buffer, size_t capacity, uint32_t*, nghttp2_data_source* source,
                             void*) {
  size_t taken = static_cast<PushStream*>(source->ptr)->TakeOutgoing(buffer, capacity);
  return taken != 0 ? static_cast<ssize_t>(taken) : ssize_t{NGHTTP2_ERR_DEFERRED};
}

size_t PushStream::TakeOutgoing(uint8_t* buffer, size_t capacity) {
  size_t taken = 0;
  while (taken < capacity) {
    const uint64_t data_bytes = span_.to - span_.from;
    if (front_sent_ == front_bytes_ && data_sent_ == data_bytes) {
      if (settings_.stop || !drain_->Next(&span_)) break;
      front_bytes_ = WriteRequestFront(span_, front_, sizeof(front_));
      front_sent_ = 0;
      data_sent_ = 0;
      continue;
    }
    const bool in_front = front_sent_ < front_bytes_;
    const uint8_t* from = in_front ? front_ + front_sent_ : span_.data + data_sent_;
    size_t count = in_front ? front_bytes_ - front_sent_ : data_bytes - data_sent_;
    if (count > capacity - taken) count = capacity - taken;
    memcpy(buffer + taken, from, count);
    (in_front ? front_sent_ : data_sent_) += count;
    taken += count;
  }
  return taken;
}

int PushStream::OnDataChunk(nghttp2_session*, uint8_t, int32_t, const uint8_t* data, size_t bytes, void* self) {
  return static_cast<PushStream*>(self)->TakeReplyBytes(data, bytes) ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

bool PushStream::TakeReplyBytes(const uint8_t* data, size_t bytes) {
  while (bytes != 0) {
    size_t wanted = kMessagePrefixBytes;
    if (reply_bytes_ >= kMessagePrefixBytes) {
      size_t message_bytes = static_cast<size_t>(reply_[1]) << 24 | static_cast<size_t>(reply_[2]) << 16 |
                             static_cast<size_t>(reply_[3]) << 8 | reply_[4];
      if (reply_[0] != 0 || message_bytes > kReplyMaxBytes - kMessagePrefixBytes) return false;
      wanted += message_bytes;
    }
    size_t count = wanted - reply_bytes_ < bytes ? wanted - reply_bytes_ : bytes;
    memcpy(reply_ + reply_bytes_, data, count);
    reply_bytes_ += count;
    data += count;
    bytes -= count;
    if (reply_bytes_ < wanted) return true;
    if (wanted == kMessagePrefixBytes && (reply_[1] | reply_[2] | reply_[3] | reply_[4]) != 0) continue;
    if (!ApplyReply(reply_ + kMessagePrefixBytes, wanted - kMessagePrefixBytes, drain_, &settings_)) return false;
    reply_bytes_ = 0;
    acknowledged_ = true;
  }
  return true;
}

int PushStream::OnHeader(nghttp2_session*, const nghttp2_frame*, const uint8_t* name, size_t name_bytes, const uint8_t* value,
                         size_t value_bytes, uint8_t, void* self) {
  static_cast<PushStream*>(self)->TakeHeader(name, name_bytes, value, value_bytes);
  return 0;
}

void PushStream::TakeHeader(const uint8_t* name, size_t name_bytes, const uint8_t* value, size_t value_bytes) {
  if (Is(name, name_bytes, ":status") && !Is(value, value_bytes, "200")) closed_ = true;
  if (!Is(name, name_bytes, "grpc-status")) return;
  grpc_status_ = 0;
  for (size_t i = 0; i < value_bytes && i < 3 && value[i] >= '0' && value[i] <= '9'; ++i)
    grpc_status_ = grpc_status_ * 10 + (value[i] - '0');
}

const char* PushStream::EndText() const {
  switch (grpc_status_) {
    case kPermissionDenied:
    case kUnauthenticated:
      return "refused: the daemon denies this agent its stream; socket ";
    case kUnimplemented:
      return "refused: the daemon has no push service that this agent knows, versions differ; socket ";
    case kResourceExhausted:
      return "waiting: the daemon has no room for this stream; socket ";
    case kUnavailable:
      return "recording, the daemon is stopping: records wait in the ring; socket ";
    case -1:
      return sent_away_ ? "recording, the daemon sends its connections away: records wait in the ring; socket " : nullptr;
    default:
      return "recording, the daemon ended the stream: records wait in the ring; socket ";
  }
}

// A server's last frame ends the call: its status came, and not every server resets the half of the stream that is ours.
int PushStream::OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* self) {
  auto* stream = static_cast<PushStream*>(self);
  const bool carries_end = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
  if (carries_end && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) stream->closed_ = true;
  if (frame->hd.type == NGHTTP2_GOAWAY) stream->closed_ = stream->sent_away_ = true;
  return 0;
}

int PushStream::OnStreamClose(nghttp2_session*, int32_t, uint32_t, void* self) {
  static_cast<PushStream*>(self)->closed_ = true;
  return 0;
}

}  // namespace stepscope::agent
