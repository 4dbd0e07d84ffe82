// SPDX-License-Identifier: Apache-2.0
// The producing end of one ring (contract/ring.h): turns calls into committed records, or into counted loss. One thread at a
// time: the ring's owner; once that thread is gone, the sender, for the last LOST record.
//
// What a call needs (a LOST record for an earlier hole, the NAME of a first use, the record itself) is admitted and committed
// together, by one store of `head`. Room for the ENDs of all open spans is kept back, so a span is lost whole or not at all.
// No call allocates, locks or enters the kernel.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "agent/core/name_table.h"
#include "contract/ring.h"
#include "stepscope/stepscope.h"

namespace stepscope::agent {

class RingWriter {
 public:
  struct Owner {
    uint64_t fork_token;
    int32_t tid;
    char comm[16];
  };

  // Starts a generation in a ring this thread has just acquired: writes the THREAD record.
  void Open(stepscope_ring_descriptor* descriptor, uint8_t* data, const NameTable* names, const Owner& owner, uint64_t ticks);

  // The token of the process that may write here (fork_guard.h).
  uint64_t fork_token() const { return fork_token_; }

  // Brackets the calls below. False when a signal handler interrupted a call on this very thread: then nothing may be written.
  bool Enter() {
    if (busy_) [[unlikely]]
      return false;
    busy_ = true;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return true;
  }
  void Leave() {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    busy_ = false;
  }

  void Begin(const stepscope_name& name, uint64_t ticks);
  void End(uint64_t ticks);
  void EndNamed(uint32_t name, uint64_t ticks);
  // MARK, COUNTER, WINDOW.
  bool Number(stepscope_record_kind kind, uint32_t name, int64_t number, uint64_t ticks);
  bool TokenBegin(uint64_t token, const stepscope_name& name, uint64_t ticks);
  bool TokenEnd(uint64_t token, uint64_t ticks);
  bool Info(uint32_t key, const char* value, uint32_t bytes, uint64_t ticks);
  bool Range(uint64_t begin, uint64_t end, uint64_t ticks);
  bool Anchor(const stepscope_record_anchor& reading);

  // Tells the loss that no LOST record has told yet; false when there is no room. True when there is none.
  bool TellLoss();

  // Calls that closed nothing: an end without a begin.
  uint64_t ignored() const { return ignored_; }

 private:
  struct OpenSpan {
    uint32_t name;
    bool recorded;  // its BEGIN is in the ring
  };
  enum class LossFirst { kRequired, kIfItFits };

  // The reader had the next lines of the ring last: fetching one takes longer than writing a record. Far enough ahead for the
  // largest record without text, near enough to be still there.
  static constexpr uint64_t kPrefetchBytes = 192;
  static void PrefetchForWrite(const uint8_t* place) {
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*place));  // GCC's own takes the line for reading only
#else
    __builtin_prefetch(place, 1);
#endif
  }

  static constexpr uint64_t kEndBytes = sizeof(stepscope_record_time);
  // Open ENDs are written one behind the other, so at most one PAD, of 8 bytes, comes between them.
  static uint64_t KeptForEnds(uint64_t open) { return open == 0 ? 0 : open * kEndBytes + 8; }

  bool Defined(uint32_t name) const { return (defined_[name / 64] >> (name % 64) & 1) != 0; }

  // A place for a record of `bytes`, everything it needs written in front of it; nullptr when there is no room.
  uint8_t* Admit(uint32_t bytes, uint32_t name, uint64_t open_after) {
    uint64_t next = head_ + bytes;
    if (!loss_untold_ && Defined(name) && (head_ & mask_) + bytes <= mask_ + 1 &&
        next + KeptForEnds(open_after) - tail_seen_ <= mask_ + 1) [[likely]] {
      uint8_t* place = data_ + (head_ & mask_);
      head_ = next;
      return place;
    }
    return AdmitSlow(bytes, name, open_after, LossFirst::kRequired);
  }
  uint8_t* AdmitSlow(uint32_t bytes, uint32_t name, uint64_t open_after, LossFirst loss);
  uint8_t* AdmitEnd(uint64_t open_after);
  bool Fits(const uint32_t* sizes, int count, uint64_t open_after);
  uint8_t* Place(uint32_t bytes);
  void WriteName(uint32_t id, const Name& name);
  void WriteLost();
  void WriteEnd(uint32_t name, uint64_t ticks);

  template <typename Record>
  void Commit(uint8_t* place, const Record& record) {
    memcpy(place, &record, sizeof(record));
    __atomic_store_n(&descriptor_->head, head_, __ATOMIC_RELEASE);
    PrefetchForWrite(data_ + ((head_ + kPrefetchBytes) & mask_));
  }
  void CountLost(uint64_t bytes, uint64_t ticks);

  uint64_t fork_token_;  // first: the guard of every call reads it
  bool busy_;
  bool loss_untold_;
  uint32_t depth_;  // used entries of open_
  uint64_t head_;
  uint64_t tail_seen_;
  uint64_t mask_;
  uint8_t* data_;
  stepscope_ring_descriptor* descriptor_;
  uint64_t recorded_open_;  // of open_, those with `recorded`
  uint64_t too_deep_;       // open spans beyond STEPSCOPE_OPEN_SPANS_MAX
  uint64_t untold_bytes_;   // lost since the last LOST record
  uint64_t ignored_;
  const NameTable* names_;
  OpenSpan open_[STEPSCOPE_OPEN_SPANS_MAX];
  uint64_t defined_[STEPSCOPE_NAME_MAX_COUNT / 64];  // bit = NAME record written in this generation
};

}  // namespace stepscope::agent
