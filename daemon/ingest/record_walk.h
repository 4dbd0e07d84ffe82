// SPDX-License-Identifier: Apache-2.0
// WalkRecords: the one place where ring bytes (contract/ring.h) become records. Bytes come from another process and are not
// trusted: every record is checked for its kind's least size before anyone looks inside, and copied out, never cast in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "contract/ring.h"

namespace stepscope {

using RingBytes = std::span<const std::byte>;

/// Least size of a record of `kind`; 8 for a kind this release does not know (it is skipped by its size).
constexpr size_t LeastRecordBytes(uint16_t kind) {
  switch (kind) {
    case STEPSCOPE_RECORD_NAME:
      return sizeof(stepscope_record_name);
    case STEPSCOPE_RECORD_BEGIN:
    case STEPSCOPE_RECORD_END:
      return sizeof(stepscope_record_time);
    case STEPSCOPE_RECORD_BEGIN_N:
    case STEPSCOPE_RECORD_MARK:
    case STEPSCOPE_RECORD_COUNTER:
    case STEPSCOPE_RECORD_WINDOW:
      return sizeof(stepscope_record_number);
    case STEPSCOPE_RECORD_TOKEN_BEGIN:
    case STEPSCOPE_RECORD_TOKEN_END:
      return sizeof(stepscope_record_token);
    case STEPSCOPE_RECORD_INFO:
      return sizeof(stepscope_record_info);
    case STEPSCOPE_RECORD_LOST:
      return sizeof(stepscope_record_lost);
    case STEPSCOPE_RECORD_THREAD:
      return sizeof(stepscope_record_thread);
    case STEPSCOPE_RECORD_ANCHOR:
      return sizeof(stepscope_record_anchor);
    case STEPSCOPE_RECORD_GIL:
      return sizeof(stepscope_record_range);
    default:
      return sizeof(stepscope_record);
  }
}

/// Copies the fixed part of a record. `bytes` holds at least LeastRecordBytes of its kind.
template <typename Record>
Record CopyRecord(RingBytes bytes) {
  Record record;
  std::memcpy(&record, bytes.data(), sizeof(record));
  return record;
}

/// The record at the front of `bytes`; empty when what is there is not a whole record.
inline RingBytes FrontRecord(RingBytes bytes) {
  if (bytes.size() < sizeof(stepscope_record)) return {};
  const auto header = CopyRecord<stepscope_record>(bytes);
  if (header.size % 8 != 0 || header.size < LeastRecordBytes(header.kind) || header.size > bytes.size()) return {};
  return bytes.first(header.size);
}

/// Calls visit(header, record bytes) for each record. Returns the number of bytes at the end that are no records (0 = all
/// were): after the first bad record nothing behind it can be trusted.
template <typename Visit>
size_t WalkRecords(RingBytes bytes, Visit&& visit) {
  while (!bytes.empty()) {
    const RingBytes record = FrontRecord(bytes);
    if (record.empty()) return bytes.size();
    visit(CopyRecord<stepscope_record>(record), record);
    bytes = bytes.subspan(record.size());
  }
  return 0;
}

/// Length of the longest run of whole records of at most `limit` bytes; all of `bytes` when it fits or holds a bad record.
inline size_t WholeRecords(RingBytes bytes, size_t limit) {
  if (bytes.size() <= limit) return bytes.size();
  size_t length = 0;
  while (true) {
    const RingBytes record = FrontRecord(bytes.subspan(length));
    if (record.empty()) return bytes.size();
    if (length + record.size() > limit) return length;
    length += record.size();
  }
}

}  // namespace stepscope
