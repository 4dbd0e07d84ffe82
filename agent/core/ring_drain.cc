// SPDX-License-Identifier: Apache-2.0
#include "agent/core/ring_drain.h"

#include <string.h>

namespace stepscope::agent {

void RingDrain::Open(RingFile* file) {
  file_ = file;
  turn_ = 0;
  memset(sent_, 0, sizeof(sent_));
}

bool RingDrain::Next(RingSpan* span) {
  for (uint32_t i = 0; i < file_->rings_used(); ++i) {
    uint32_t ring = turn_;
    turn_ = turn_ + 1 >= file_->rings_used() ? 0 : turn_ + 1;
    if (file_->state(ring) == STEPSCOPE_RING_FREE) continue;
    uint64_t head = Head(ring);
    uint64_t from = sent_[ring];
    if (head <= from) continue;
    const stepscope_ring_descriptor* d = file_->descriptor(ring);
    uint64_t lap_end = (from | (d->data_bytes - 1)) + 1;
    uint64_t to = head < lap_end ? head : lap_end;
    if (to - from > kMaxSpanBytes) to = WholeRecordsEnd(ring, from, from + kMaxSpanBytes);
    if (to == from) continue;  // not a record: the host wrote over the ring
    sent_[ring] = to;
    *span = {ring, d->generation, from, to, file_->data(ring) + (from & (d->data_bytes - 1))};
    return true;
  }
  return false;
}

uint64_t RingDrain::WholeRecordsEnd(uint32_t ring, uint64_t from, uint64_t limit) const {
  const uint64_t mask = file_->descriptor(ring)->data_bytes - 1;
  const uint8_t* data = file_->data(ring);
  uint64_t end = from;
  for (;;) {
    stepscope_record record;
    memcpy(&record, data + (end & mask), sizeof(record));
    if (end + record.size > limit || record.size == 0) return end;
    end += record.size;
  }
}

uint64_t RingDrain::WaitingBytes() const {
  uint64_t waiting = 0;
  for (uint32_t ring = 0; ring < file_->rings_used(); ++ring) {
    if (file_->state(ring) == STEPSCOPE_RING_FREE) continue;
    uint64_t head = Head(ring);
    if (head > sent_[ring]) waiting += head - sent_[ring];
  }
  return waiting;
}

void RingDrain::Stored(uint32_t ring, uint32_t generation, uint64_t position) {
  if (ring >= file_->ring_count()) return;
  stepscope_ring_descriptor* d = file_->descriptor(ring);
  if (d->generation != generation || position <= d->tail || position > sent_[ring]) return;
  __atomic_store_n(&d->tail, position, __ATOMIC_RELEASE);
}

void RingDrain::Restart(const stepscope_hello_position* stored, uint32_t count) {
  for (uint32_t ring = 0; ring < file_->rings_used(); ++ring) sent_[ring] = Head(ring);
  for (uint32_t i = 0; i < count; ++i) Stored(stored[i].ring, stored[i].generation, stored[i].position);
  for (uint32_t ring = 0; ring < file_->rings_used(); ++ring) sent_[ring] = file_->descriptor(ring)->tail;
}

bool RingDrain::NeedsSpace() const {
  for (uint32_t ring = 0; ring < file_->rings_used(); ++ring) {
    const uint32_t state = file_->state(ring);
    if (state == STEPSCOPE_RING_FREE || Head(ring) <= sent_[ring]) continue;
    const stepscope_ring_descriptor* d = file_->descriptor(ring);
    if (state == STEPSCOPE_RING_RETIRED || Head(ring) - d->tail >= d->data_bytes / 2) return true;
  }
  return false;
}

bool RingDrain::Drained(uint32_t ring) const { return Head(ring) == file_->descriptor(ring)->tail; }

}  // namespace stepscope::agent
