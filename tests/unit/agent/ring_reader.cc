// SPDX-License-Identifier: Apache-2.0
#include "ring_reader.h"

#include <unistd.h>

#include <cstring>

namespace stepscope::agent {
namespace {

void Require(bool holds, const std::string& rule) {
  if (!holds) throw std::runtime_error("ring rule broken: " + rule);
}

template <typename Record>
Record Take(const char* at, uint16_t size) {
  Require(size >= sizeof(Record), "a record is as long as its kind asks");
  Record record;
  std::memcpy(&record, at, sizeof(record));
  return record;
}

class Reader {
 public:
  explicit Reader(RingContents* contents) : c_(*contents) {}

  void Read(const stepscope_record& record, const char* at) {
    switch (record.kind) {
      case STEPSCOPE_RECORD_PAD:
        return;
      case STEPSCOPE_RECORD_NAME:
        return ReadName(at, record.size);
      case STEPSCOPE_RECORD_BEGIN:
        return Begin(record, Take<stepscope_record_time>(at, record.size).ticks, nullptr);
      case STEPSCOPE_RECORD_BEGIN_N: {
        auto number = Take<stepscope_record_number>(at, record.size);
        return Begin(record, number.ticks, &number.number);
      }
      case STEPSCOPE_RECORD_END:
        return End(record, Take<stepscope_record_time>(at, record.size).ticks);
      case STEPSCOPE_RECORD_TOKEN_BEGIN: {
        auto token = Take<stepscope_record_token>(at, record.size);
        c_.token_begins.emplace_back(token.token, NameOf(record.name));
        return User(token.ticks);
      }
      case STEPSCOPE_RECORD_TOKEN_END: {
        auto token = Take<stepscope_record_token>(at, record.size);
        c_.token_ends.push_back(token.token);
        return User(token.ticks);
      }
      case STEPSCOPE_RECORD_COUNTER:
        c_.counters.push_back(static_cast<uint64_t>(Take<stepscope_record_number>(at, record.size).number));
        [[fallthrough]];
      case STEPSCOPE_RECORD_MARK:
        NameOf(record.name);
        [[fallthrough]];
      case STEPSCOPE_RECORD_WINDOW:
        return User(Take<stepscope_record_number>(at, record.size).ticks);
      case STEPSCOPE_RECORD_INFO: {
        auto info = Take<stepscope_record_info>(at, record.size);
        Require(sizeof(info) + info.bytes <= record.size, "info fits its record");
        c_.info[NameOf(record.name)] = std::string(at + sizeof(info), info.bytes);
        return User(info.ticks);
      }
      case STEPSCOPE_RECORD_LOST: {
        auto lost = Take<stepscope_record_lost>(at, record.size);
        Require(lost.records != 0 && lost.first_ticks <= lost.last_ticks, "LOST tells something");
        c_.lost_told += lost.records;
        Require(c_.lost_told == lost.total, "LOST total adds up");
        return;
      }
      case STEPSCOPE_RECORD_THREAD:
        c_.tid = Take<stepscope_record_thread>(at, record.size).tid;
        return;
      case STEPSCOPE_RECORD_ANCHOR:
        ++c_.anchors;
        return;
      case STEPSCOPE_RECORD_GIL:
        return User(Take<stepscope_record_range>(at, record.size).ticks);
      default:
        Require(false, "known kind, got " + std::to_string(record.kind));
    }
  }

 private:
  void User(uint64_t ticks) {
    ++c_.user_records;
    Require(ticks >= c_.last_ticks, "time of a ring never goes back");
    c_.last_ticks = ticks;
  }

  std::string NameOf(uint32_t id) {
    Require(c_.names.count(id) == 1, "NAME before use");
    return c_.names[id];
  }

  void ReadName(const char* at, uint16_t size) {
    auto name = Take<stepscope_record_name>(at, size);
    Require(sizeof(name) + name.bytes <= size, "name fits its record");
    Require(c_.names.count(name.header.name) == 0, "a name is defined once per generation");
    c_.names[name.header.name] = std::string(at + sizeof(name), name.bytes);
  }

  void Begin(const stepscope_record& record, uint64_t ticks, const int64_t* number) {
    c_.open.push_back(c_.spans.size());
    c_.spans.push_back({NameOf(record.name), number != nullptr ? *number : 0, number != nullptr, false});
    User(ticks);
  }

  void End(const stepscope_record& record, uint64_t ticks) {
    User(ticks);
    std::string wanted = record.name != 0 ? NameOf(record.name) : "";
    while (!c_.open.empty()) {
      Span& span = c_.spans[c_.open.back()];
      c_.open.pop_back();
      span.ended = true;
      if (record.name == 0 || span.name == wanted) return;
    }
    ++c_.unmatched_ends;
  }

  RingContents& c_;
};

}  // namespace

void ReadRecords(const std::string& bytes, RingContents* contents) {
  Reader reader(contents);
  size_t at = 0;
  while (at < bytes.size()) {
    Require(bytes.size() - at >= sizeof(stepscope_record), "a span ends with a record");
    stepscope_record record;
    std::memcpy(&record, bytes.data() + at, sizeof(record));
    Require(record.size >= sizeof(record) && record.size % 8 == 0, "record size");
    Require(at + record.size <= bytes.size(), "a record is whole");
    reader.Read(record, bytes.data() + at);
    at += record.size;
  }
}

RingFileCopy::RingFileCopy(int fd) : fd_(fd) {
  Require(pread(fd, &header_, sizeof(header_), 0) == sizeof(header_), "header is readable");
  Require(header_.magic == STEPSCOPE_RING_MAGIC, "magic");
  Require(pread(fd, descriptors_, sizeof(descriptors_), STEPSCOPE_RING_HEADER_BYTES) == sizeof(descriptors_), "descriptors");
}

std::string RingFileCopy::Bytes(uint32_t ring, uint64_t from, uint64_t to) const {
  const stepscope_ring_descriptor& d = descriptors_[ring];
  std::string bytes(to - from, '\0');
  for (uint64_t at = from; at < to;) {
    uint64_t offset = at % d.data_bytes;
    uint64_t count = std::min(to - at, d.data_bytes - offset);
    Require(
        pread(fd_, bytes.data() + (at - from), count, static_cast<off_t>(d.data_offset + offset)) == static_cast<ssize_t>(count),
        "data is readable");
    at += count;
  }
  return bytes;
}

RingContents RingFileCopy::Contents(uint32_t ring, uint64_t from) const {
  RingContents contents;
  ReadRecords(Bytes(ring, from, descriptors_[ring].head), &contents);
  return contents;
}

}  // namespace stepscope::agent
