// SPDX-License-Identifier: Apache-2.0
#include "agent/core/ring_writer.h"

namespace stepscope::agent {
namespace {

template <typename Record>
constexpr stepscope_record Header(stepscope_record_kind kind, uint32_t name) {
  return {static_cast<uint16_t>(kind), sizeof(Record), name};
}

constexpr uint32_t RoundUp8(uint32_t bytes) { return (bytes + 7u) & ~7u; }

void StoreRelaxed(uint64_t* field, uint64_t value) { __atomic_store_n(field, value, __ATOMIC_RELAXED); }

}  // namespace

void RingWriter::Open(stepscope_ring_descriptor* descriptor, uint8_t* data, const NameTable* names, const Owner& owner,
                      uint64_t ticks) {
  memset(static_cast<void*>(this), 0, sizeof(*this));
  mask_ = descriptor->data_bytes - 1;
  data_ = data;
  descriptor_ = descriptor;
  names_ = names;
  defined_[0] = 1;  // name 0 means "none" and needs no NAME record
  stepscope_record_thread record{Header<stepscope_record_thread>(STEPSCOPE_RECORD_THREAD, 0), ticks, owner.tid, 0, {}};
  memcpy(record.comm, owner.comm, sizeof(record.comm));
  if (uint8_t* place = Admit(sizeof(record), 0, 0)) Commit(place, record);
  fork_token_ = owner.fork_token;
}

bool RingWriter::Fits(const uint32_t* sizes, int count, uint64_t open_after) {
  const uint64_t capacity = mask_ + 1;
  uint64_t end = head_;
  for (int i = 0; i < count; ++i) {
    uint64_t left_in_lap = capacity - (end & mask_);
    if (sizes[i] > left_in_lap) end += left_in_lap;
    end += sizes[i];
  }
  if (end + KeptForEnds(open_after) - tail_seen_ <= capacity) return true;
  tail_seen_ = __atomic_load_n(&descriptor_->tail, __ATOMIC_ACQUIRE);
  return end + KeptForEnds(open_after) - tail_seen_ <= capacity;
}

uint8_t* RingWriter::Place(uint32_t bytes) {
  uint64_t left_in_lap = mask_ + 1 - (head_ & mask_);
  if (bytes > left_in_lap) {
    stepscope_record pad{STEPSCOPE_RECORD_PAD, static_cast<uint16_t>(left_in_lap), 0};
    memcpy(data_ + (head_ & mask_), &pad, sizeof(pad));
    head_ += left_in_lap;
  }
  uint8_t* place = data_ + (head_ & mask_);
  head_ += bytes;
  return place;
}

void RingWriter::WriteName(uint32_t id, const Name& name) {
  uint32_t size = RoundUp8(sizeof(stepscope_record_name) + name.bytes);
  uint8_t* place = Place(size);
  stepscope_record_name record{{STEPSCOPE_RECORD_NAME, static_cast<uint16_t>(size), id}, name.domain, name.flags, name.bytes};
  memset(place + size - 8, 0, 8);
  memcpy(place, &record, sizeof(record));
  memcpy(place + sizeof(record), name.text, name.bytes);
  defined_[id / 64] |= 1ull << (id % 64);
}

void RingWriter::WriteLost() {
  const stepscope_ring_descriptor& d = *descriptor_;
  stepscope_record_lost record{Header<stepscope_record_lost>(STEPSCOPE_RECORD_LOST, 0),
                               d.lost_records - d.lost_reported,
                               untold_bytes_,
                               d.lost_first_ticks,
                               d.lost_last_ticks,
                               d.lost_records};
  memcpy(Place(sizeof(record)), &record, sizeof(record));
  StoreRelaxed(&descriptor_->lost_reported, d.lost_records);
  untold_bytes_ = 0;
  loss_untold_ = false;
}

uint8_t* RingWriter::AdmitSlow(uint32_t bytes, uint32_t name, uint64_t open_after, LossFirst loss) {
  const Name* undefined = nullptr;
  if (!Defined(name)) {
    undefined = names_->Find(name);
    if (undefined == nullptr) return nullptr;
  }
  uint32_t sizes[3];
  int count = 0;
  if (loss_untold_) sizes[count++] = sizeof(stepscope_record_lost);
  if (undefined != nullptr) sizes[count++] = RoundUp8(sizeof(stepscope_record_name) + undefined->bytes);
  sizes[count++] = bytes;
  bool tell_loss = loss_untold_;
  if (!Fits(sizes, count, open_after)) {
    // An END alone always fits: its room, and that of the one PAD among the ENDs, was kept when its BEGIN was admitted. The PAD's
    // share must not be asked for again here, or an END at the end of a lap would be lost without its BEGIN.
    if (loss == LossFirst::kRequired || !Fits(sizes + count - 1, 1, 0)) return nullptr;
    tell_loss = false;
  }
  if (tell_loss) WriteLost();
  if (undefined != nullptr) WriteName(name, *undefined);
  return Place(bytes);
}

// The room of an END was kept back when its BEGIN was admitted; that of a LOST record in front of it was not.
uint8_t* RingWriter::AdmitEnd(uint64_t open_after) { return AdmitSlow(kEndBytes, 0, open_after, LossFirst::kIfItFits); }

void RingWriter::CountLost(uint64_t bytes, uint64_t ticks) {
  stepscope_ring_descriptor* d = descriptor_;
  if (!loss_untold_) StoreRelaxed(&d->lost_first_ticks, ticks);
  StoreRelaxed(&d->lost_last_ticks, ticks);
  untold_bytes_ += bytes;
  StoreRelaxed(&d->lost_bytes, d->lost_bytes + bytes);
  StoreRelaxed(&d->lost_records, d->lost_records + 1);
  loss_untold_ = true;
}

void RingWriter::Begin(const stepscope_name& name, uint64_t ticks) {
  if (name.id == 0 || name.id >= STEPSCOPE_NAME_MAX_COUNT) return;
  const uint32_t bytes = name.has_number != 0 ? sizeof(stepscope_record_number) : sizeof(stepscope_record_time);
  if (depth_ == STEPSCOPE_OPEN_SPANS_MAX) {
    ++too_deep_;
    return CountLost(bytes, ticks);
  }
  uint8_t* place = Admit(bytes, name.id, recorded_open_ + 1);
  open_[depth_++] = {name.id, place != nullptr};
  if (place == nullptr) return CountLost(bytes, ticks);
  ++recorded_open_;
  if (name.has_number != 0) {
    Commit(place,
           stepscope_record_number{Header<stepscope_record_number>(STEPSCOPE_RECORD_BEGIN_N, name.id), ticks, name.number});
  } else {
    Commit(place, stepscope_record_time{Header<stepscope_record_time>(STEPSCOPE_RECORD_BEGIN, name.id), ticks});
  }
}

void RingWriter::WriteEnd(uint32_t name, uint64_t ticks) {
  uint64_t next = head_ + kEndBytes;
  uint8_t* place = data_ + (head_ & mask_);
  if (!loss_untold_ && (head_ & mask_) + kEndBytes <= mask_ + 1) [[likely]] {
    head_ = next;
  } else {
    place = AdmitEnd(recorded_open_);
    if (place == nullptr) return CountLost(kEndBytes, ticks);
  }
  Commit(place, stepscope_record_time{Header<stepscope_record_time>(STEPSCOPE_RECORD_END, name), ticks});
}

void RingWriter::End(uint64_t ticks) {
  if (too_deep_ != 0) [[unlikely]] {
    --too_deep_;
    return CountLost(kEndBytes, ticks);
  }
  if (depth_ == 0) [[unlikely]] {
    ++ignored_;
    return;
  }
  if (!open_[--depth_].recorded) [[unlikely]]
    return CountLost(kEndBytes, ticks);
  --recorded_open_;
  WriteEnd(0, ticks);
}

void RingWriter::EndNamed(uint32_t name, uint64_t ticks) {
  uint32_t found = depth_;
  while (found != 0 && open_[found - 1].name != name) --found;
  if (found == 0) {
    ++ignored_;
    return;
  }
  too_deep_ = 0;
  const OpenSpan target = open_[found - 1];
  uint64_t inner = 0;
  for (uint32_t i = found; i < depth_; ++i) inner += open_[i].recorded ? 1 : 0;
  depth_ = found - 1;
  if (target.recorded) {
    recorded_open_ -= inner + 1;
    return WriteEnd(inner != 0 ? name : 0, ticks);
  }
  // The target itself was lost: a reader knows only the spans inside it, which end here too.
  for (; inner != 0; --inner) {
    --recorded_open_;
    WriteEnd(0, ticks);
  }
  CountLost(kEndBytes, ticks);
}

bool RingWriter::Number(stepscope_record_kind kind, uint32_t name, int64_t number, uint64_t ticks) {
  if (name >= STEPSCOPE_NAME_MAX_COUNT) return false;
  uint8_t* place = Admit(sizeof(stepscope_record_number), name, recorded_open_);
  if (place == nullptr) return CountLost(sizeof(stepscope_record_number), ticks), false;
  Commit(place, stepscope_record_number{Header<stepscope_record_number>(kind, name), ticks, number});
  return true;
}

bool RingWriter::TokenBegin(uint64_t token, const stepscope_name& name, uint64_t ticks) {
  if (name.id == 0 || name.id >= STEPSCOPE_NAME_MAX_COUNT) return false;
  uint8_t* place = Admit(sizeof(stepscope_record_token), name.id, recorded_open_);
  if (place == nullptr) return CountLost(sizeof(stepscope_record_token), ticks), false;
  Commit(place, stepscope_record_token{Header<stepscope_record_token>(STEPSCOPE_RECORD_TOKEN_BEGIN, name.id), ticks, token,
                                       name.number, name.has_number != 0 ? 1u : 0u, 0});
  return true;
}

bool RingWriter::TokenEnd(uint64_t token, uint64_t ticks) {
  uint8_t* place = Admit(sizeof(stepscope_record_token), 0, recorded_open_);
  if (place == nullptr) return CountLost(sizeof(stepscope_record_token), ticks), false;
  Commit(place, stepscope_record_token{Header<stepscope_record_token>(STEPSCOPE_RECORD_TOKEN_END, 0), ticks, token, 0, 0, 0});
  return true;
}

bool RingWriter::Info(uint32_t key, const char* value, uint32_t bytes, uint64_t ticks) {
  if (key == 0 || key >= STEPSCOPE_NAME_MAX_COUNT) return false;
  uint32_t size = RoundUp8(sizeof(stepscope_record_info) + bytes);
  uint8_t* place = Admit(size, key, recorded_open_);
  if (place == nullptr) return CountLost(size, ticks), false;
  memset(place + size - 8, 0, 8);
  memcpy(place + sizeof(stepscope_record_info), value, bytes);
  Commit(place, stepscope_record_info{{STEPSCOPE_RECORD_INFO, static_cast<uint16_t>(size), key}, ticks, bytes, 0});
  return true;
}

bool RingWriter::Range(uint64_t begin, uint64_t end, uint64_t ticks) {
  uint8_t* place = Admit(sizeof(stepscope_record_range), 0, recorded_open_);
  if (place == nullptr) return CountLost(sizeof(stepscope_record_range), ticks), false;
  Commit(place, stepscope_record_range{Header<stepscope_record_range>(STEPSCOPE_RECORD_GIL, 0), ticks, begin, end});
  return true;
}

bool RingWriter::Anchor(const stepscope_record_anchor& reading) {
  uint8_t* place = Admit(sizeof(reading), 0, recorded_open_);
  if (place == nullptr) return CountLost(sizeof(reading), reading.ticks), false;
  stepscope_record_anchor record = reading;
  record.header = Header<stepscope_record_anchor>(STEPSCOPE_RECORD_ANCHOR, 0);
  Commit(place, record);
  return true;
}

bool RingWriter::TellLoss() {
  if (!loss_untold_) return true;
  const uint32_t size = sizeof(stepscope_record_lost);
  if (!Fits(&size, 1, recorded_open_)) return false;
  WriteLost();
  __atomic_store_n(&descriptor_->head, head_, __ATOMIC_RELEASE);
  return true;
}

}  // namespace stepscope::agent
