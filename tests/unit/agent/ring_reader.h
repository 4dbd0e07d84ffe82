// SPDX-License-Identifier: Apache-2.0
// A checking reader of ring bytes for tests: walks records, insists on every rule of contract/ring.h a stream must obey, and
// keeps what was recorded. Throws std::runtime_error with the rule that was broken.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "contract/ring.h"

namespace stepscope::agent {

struct Span {
  std::string name;
  int64_t number = 0;
  bool has_number = false;
  bool ended = false;
};

struct RingContents {
  std::map<uint32_t, std::string> names;
  std::vector<Span> spans;    // in order of their begin
  std::vector<size_t> open;   // indices into spans
  uint64_t user_records = 0;  // all but PAD, NAME, LOST, THREAD, ANCHOR
  uint64_t lost_told = 0;     // records, by LOST records
  uint64_t unmatched_ends = 0;
  std::vector<uint64_t> counters;  // bits
  std::vector<std::pair<uint64_t, std::string>> token_begins;
  std::vector<uint64_t> token_ends;
  std::map<std::string, std::string> info;
  uint64_t anchors = 0;
  int32_t tid = 0;
  uint64_t last_ticks = 0;
};

// Continues `contents` with the bytes [from, from + bytes.size()) of a ring.
void ReadRecords(const std::string& bytes, RingContents* contents);

// The ring file behind fd, read by pread as the daemon does; never mapped.
class RingFileCopy {
 public:
  explicit RingFileCopy(int fd);
  const stepscope_ring_header& header() const { return header_; }
  const stepscope_ring_descriptor& descriptor(uint32_t ring) const { return descriptors_[ring]; }
  // Bytes [from, to) of a ring, in order.
  std::string Bytes(uint32_t ring, uint64_t from, uint64_t to) const;
  // Everything from `from` to head.
  RingContents Contents(uint32_t ring, uint64_t from = 0) const;

 private:
  int fd_;
  stepscope_ring_header header_;
  stepscope_ring_descriptor descriptors_[STEPSCOPE_RING_SLOTS];
};

}  // namespace stepscope::agent
