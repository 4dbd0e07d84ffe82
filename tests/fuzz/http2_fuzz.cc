// SPDX-License-Identifier: Apache-2.0
// Any bytes as what a server sends: the agent's end of the stream, in the user's process, neither crashes nor writes outside its
// arena, and no acknowledgement frees what was not written or not sent. Input: pieces, as they come from the socket.
#include <cstdint>
#include <cstring>

#include "agent/core/ring_file.h"
#include "agent/wire/push_stream.h"
#include "tests/fuzz/pieces.h"

namespace {

using namespace stepscope::agent;
using stepscope::fuzz::Check;

constexpr uint32_t kHead = 960;

/// A ring file with one thread's records in it.
RingFile& Rings() {
  static RingFile file;
  static const bool made = [] {
    const uint8_t session[16] = {1};
    const char comm[16] = "fuzz";
    Check(file.Create(session, STEPSCOPE_CLOCK_MONOTONIC, 4096).step == nullptr);
    Check(file.AcquireThreadRing(1, comm, 1) == 1);
    for (uint32_t at = 0; at < kHead; at += 16) {
      const stepscope_record_time record{{STEPSCOPE_RECORD_BEGIN, 16, 2}, at};
      std::memcpy(file.data(1) + at, &record, sizeof(record));
    }
    return true;
  }();
  Check(made);
  return file;
}

/// Takes everything the stream wants to send; false when it failed.
bool SendAll(PushStream& stream) {
  const uint8_t* bytes = nullptr;
  for (int i = 0; i < 1000; ++i) {
    const long count = stream.NextOutput(&bytes);
    if (count <= 0) return count == 0;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  alignas(16) static std::byte arena[PushStream::kArenaBytes];
  RingFile& file = Rings();
  file.descriptor(1)->tail = 0;
  file.descriptor(1)->head = kHead;
  RingDrain drain;
  drain.Open(&file);
  static PushStream stream;
  const uint8_t nonce[16] = {7};
  Check(stream.Open(arena, &drain, nonce, sizeof(nonce)));
  bool open = SendAll(stream);
  for (stepscope::fuzz::Pieces pieces(data, size); open && !pieces.empty();) {
    const std::string_view piece = pieces.Next();
    open = stream.Received(reinterpret_cast<const uint8_t*>(piece.data()), piece.size());
    stream.Resume();
    open = open && SendAll(stream);
    Check(file.descriptor(1)->tail <= kHead && file.descriptor(1)->head == kHead);
    Check(stream.settings().interval_ms != 0 && stream.settings().push_bytes != 0);
  }
  return 0;
}
