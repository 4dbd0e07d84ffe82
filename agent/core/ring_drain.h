// SPDX-License-Identifier: Apache-2.0
// The consuming end of all rings of a process, owned by the sender: which bytes go out next, and which the daemon has stored.
// Only an acknowledgement moves a tail.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "agent/core/ring_file.h"
#include "contract/hello.h"

namespace stepscope::agent {

// Whole records of one ring, contiguous in memory: it ends at the end of the ring at the latest.
struct RingSpan {
  uint32_t ring;
  uint32_t generation;
  uint64_t from;
  uint64_t to;
  const uint8_t* data;
};

class RingDrain {
 public:
  static constexpr uint64_t kMaxSpanBytes = 256u << 10;

  void Open(RingFile* file);

  // The next committed, not yet sent span; rings take turns. False when there is none.
  bool Next(RingSpan* span);
  uint64_t WaitingBytes() const;

  // The daemon has everything of {ring, generation} below position.
  void Stored(uint32_t ring, uint32_t generation, uint64_t position);

  // A new connection: what the daemon says it has counts, everything behind it is sent again.
  void Restart(const stepscope_hello_position* stored, uint32_t count);

  // A ring is half full, or its thread is gone: what it holds should be acknowledged soon.
  bool NeedsSpace() const;
  bool Drained(uint32_t ring) const;
  // The ring begins a new generation: call it together with RingFile::Recycle.
  void Forget(uint32_t ring) { sent_[ring] = 0; }

 private:
  uint64_t Head(uint32_t ring) const { return __atomic_load_n(&file_->descriptor(ring)->head, __ATOMIC_ACQUIRE); }
  uint64_t WholeRecordsEnd(uint32_t ring, uint64_t from, uint64_t limit) const;

  RingFile* file_ = nullptr;
  uint32_t turn_ = 0;
  uint64_t sent_[STEPSCOPE_RING_SLOTS] = {};
};

}  // namespace stepscope::agent
