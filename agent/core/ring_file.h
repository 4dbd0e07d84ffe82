// SPDX-License-Identifier: Apache-2.0
// The ring file of this process (contract/ring.h): one sealed memfd, mapped once, and the life of its rings: acquired by a
// thread, retired, drained, free again. Never unmapped while the process lives: a late writer must always find memory there.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "agent/core/held_fd.h"
#include "contract/ring.h"

namespace stepscope::agent {

inline constexpr uint32_t kSenderRing = 0;

class RingFile {
 public:
  // Why there is no ring file: the step that failed and -errno (0 where it does not apply).
  struct Failure {
    const char* step;  // nullptr: none
    long error;
  };

  // `thread_ring_bytes` is a power of two, at least 4 KiB. Touches only the header.
  Failure Create(const uint8_t session[16], uint32_t clock_kind, uint64_t thread_ring_bytes);

  // A free ring for the calling thread, its memory there: the slot, or kNone. Sets everything in the descriptor but head.
  static constexpr uint32_t kNone = STEPSCOPE_RING_SLOTS;
  uint32_t AcquireThreadRing(int32_t tid, const char comm[16], uint64_t ticks);
  void AcquireSenderRing(int32_t tid, const char comm[16], uint64_t ticks);

  // ACTIVE → RETIRED, by the owner's exit or for it.
  void Retire(uint32_t slot);
  // RETIRED → FREE, generation + 1: by the sender, when everything is acknowledged.
  void Recycle(uint32_t slot);

  // Records that found no ring, and the interval in which they were dropped.
  void CountWithoutRing(uint64_t records, uint64_t first_ticks, uint64_t last_ticks);

  stepscope_ring_header* header() const { return reinterpret_cast<stepscope_ring_header*>(base_); }
  stepscope_ring_descriptor* descriptor(uint32_t slot) const {
    return reinterpret_cast<stepscope_ring_descriptor*>(base_ + STEPSCOPE_RING_HEADER_BYTES) + slot;
  }
  uint8_t* data(uint32_t slot) const { return base_ + descriptor(slot)->data_offset; }
  uint32_t state(uint32_t slot) const { return __atomic_load_n(&descriptor(slot)->state, __ATOMIC_ACQUIRE); }
  uint32_t ring_count() const { return ring_count_; }  // the sender's included
  // One past the highest ring that ever had an owner: those behind it need no look, and each look costs a cache miss.
  uint32_t rings_used() const { return __atomic_load_n(&rings_used_, __ATOMIC_ACQUIRE); }
  uint64_t file_bytes() const { return file_bytes_; }
  uint8_t* base() const { return base_; }
  HeldFd& fd() { return fd_; }

 private:
  Failure MakeSealedMemory();
  void WriteHeader(const uint8_t session[16], uint32_t clock_kind);
  bool Claim(uint32_t slot);
  void NoteUsed(uint32_t slot);
  void Describe(uint32_t slot, uint64_t offset, uint64_t bytes, int32_t tid, const char comm[16], uint64_t ticks);
  bool MakePagesPresent(uint64_t offset, uint64_t bytes);
  void MapPages(uint64_t offset, uint64_t bytes);
  uint64_t ThreadRingOffset(uint32_t slot) const;

  uint8_t* base_ = nullptr;
  uint64_t file_bytes_ = 0;
  uint64_t thread_ring_bytes_ = 0;
  uint32_t ring_count_ = 0;
  uint32_t rings_used_ = kSenderRing + 1;  // atomic
  HeldFd fd_;
};

}  // namespace stepscope::agent
