// SPDX-License-Identifier: Apache-2.0
// RingBytesBuilder: ring records as a traced process would write them, for tests.
#pragma once

#include <bit>
#include <cstring>
#include <string>
#include <string_view>

#include "contract/ring.h"
#include "daemon/ingest/record_walk.h"

namespace stepscope::testing {

class RingBytesBuilder {
 public:
  template <typename Record>
  RingBytesBuilder& Add(uint16_t kind, uint32_t name, Record record, std::string_view tail = {}) {
    std::string padded(tail);
    padded.resize((padded.size() + 7) / 8 * 8);
    record.header = {kind, static_cast<uint16_t>(sizeof(record) + padded.size()), name};
    bytes_.append(reinterpret_cast<const char*>(&record), sizeof(record));
    bytes_ += padded;
    return *this;
  }
  RingBytesBuilder& Name(uint32_t id, std::string_view text, uint16_t domain = 0, uint16_t flags = 0) {
    return Add(STEPSCOPE_RECORD_NAME, id, stepscope_record_name{{}, domain, flags, static_cast<uint32_t>(text.size())}, text);
  }
  RingBytesBuilder& Begin(uint32_t name, uint64_t ticks) {
    return Add(STEPSCOPE_RECORD_BEGIN, name, stepscope_record_time{{}, ticks});
  }
  RingBytesBuilder& BeginNumber(uint32_t name, uint64_t ticks, int64_t number) {
    return Add(STEPSCOPE_RECORD_BEGIN_N, name, stepscope_record_number{{}, ticks, number});
  }
  RingBytesBuilder& End(uint64_t ticks, uint32_t name = 0) {
    return Add(STEPSCOPE_RECORD_END, name, stepscope_record_time{{}, ticks});
  }
  RingBytesBuilder& TokenBegin(uint64_t token, uint32_t name, uint64_t ticks) {
    return Add(STEPSCOPE_RECORD_TOKEN_BEGIN, name, stepscope_record_token{{}, ticks, token, 0, 0, 0});
  }
  RingBytesBuilder& TokenEnd(uint64_t token, uint64_t ticks) {
    return Add(STEPSCOPE_RECORD_TOKEN_END, 0, stepscope_record_token{{}, ticks, token, 0, 0, 0});
  }
  RingBytesBuilder& Number(uint16_t kind, uint32_t name, uint64_t ticks, int64_t number) {
    return Add(kind, name, stepscope_record_number{{}, ticks, number});
  }
  RingBytesBuilder& Counter(uint32_t name, uint64_t ticks, double value) {
    return Number(STEPSCOPE_RECORD_COUNTER, name, ticks, std::bit_cast<int64_t>(value));
  }
  RingBytesBuilder& Info(uint32_t key, uint64_t ticks, std::string_view value) {
    return Add(STEPSCOPE_RECORD_INFO, key, stepscope_record_info{{}, ticks, static_cast<uint32_t>(value.size()), 0}, value);
  }
  RingBytesBuilder& Lost(uint64_t records, uint64_t bytes, uint64_t first, uint64_t last, uint64_t total) {
    return Add(STEPSCOPE_RECORD_LOST, 0, stepscope_record_lost{{}, records, bytes, first, last, total});
  }
  RingBytesBuilder& Thread(int32_t tid, std::string_view comm, uint64_t ticks) {
    stepscope_record_thread record{{}, ticks, tid, 0, {}};
    std::memcpy(record.comm, comm.data(), std::min(comm.size(), sizeof(record.comm)));
    return Add(STEPSCOPE_RECORD_THREAD, 0, record);
  }
  RingBytesBuilder& Anchor(uint64_t ticks, uint64_t width, int64_t monotonic_ns, int64_t realtime_ns) {
    return Add(
        STEPSCOPE_RECORD_ANCHOR, 0,
        stepscope_record_anchor{{}, ticks, width, static_cast<uint64_t>(monotonic_ns), static_cast<uint64_t>(realtime_ns)});
  }
  RingBytesBuilder& Raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }

  const std::string& str() const { return bytes_; }
  RingBytes bytes() const { return std::as_bytes(std::span(bytes_)); }

 private:
  std::string bytes_;
};

}  // namespace stepscope::testing
