// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/own/switch_record.h"

#include <linux/perf_event.h>
#include <time.h>

#include <cstring>

namespace stepscope {
namespace {

// What sample_id_all appends to every record for PERF_SAMPLE_TID | TIME | CPU, in the kernel's order.
struct SampleId {
  uint32_t tgid, tid;
  uint64_t time_ns;
  uint32_t cpu, reserved;
};
struct ForkBody {
  uint32_t tgid, parent_tgid;
  uint32_t tid, parent_tid;
  uint64_t time_ns;
};
struct LostBody {
  uint64_t id, lost;
};
struct CommBody {
  uint32_t tgid, tid;
};

template <typename T>
std::optional<T> Read(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

std::string ReadComm(std::span<const std::byte> bytes) {
  const char* text = reinterpret_cast<const char*>(bytes.data());
  return std::string(text, strnlen(text, bytes.size()));
}

bool FillTask(SwitchRecord& record, SwitchKind kind, std::span<const std::byte> body) {
  const auto fork = Read<ForkBody>(body);
  if (!fork) return false;
  record.kind = kind;
  record.tgid = static_cast<int32_t>(fork->tgid);
  record.tid = static_cast<int32_t>(fork->tid);
  record.parent_tgid = static_cast<int32_t>(fork->parent_tgid);
  record.parent_tid = static_cast<int32_t>(fork->parent_tid);
  return true;
}

bool FillComm(SwitchRecord& record, uint16_t misc, std::span<const std::byte> body) {
  const auto comm = Read<CommBody>(body);
  if (!comm) return false;
  record.kind = (misc & PERF_RECORD_MISC_COMM_EXEC) != 0 ? SwitchKind::kExec : SwitchKind::kComm;
  record.tgid = static_cast<int32_t>(comm->tgid);
  record.tid = static_cast<int32_t>(comm->tid);
  record.comm = ReadComm(body.subspan(sizeof(CommBody)));
  return true;
}

bool FillBody(SwitchRecord& record, const perf_event_header& header, std::span<const std::byte> body) {
  switch (header.type) {
    case PERF_RECORD_SWITCH:
      record.kind = SwitchKind::kIn;
      if ((header.misc & PERF_RECORD_MISC_SWITCH_OUT) == 0) return true;
      record.kind = (header.misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT) != 0 ? SwitchKind::kOutRunnable : SwitchKind::kOutBlocked;
      return true;
    case PERF_RECORD_FORK:
      return FillTask(record, SwitchKind::kFork, body);
    case PERF_RECORD_EXIT:
      return FillTask(record, SwitchKind::kExit, body);
    case PERF_RECORD_COMM:
      return FillComm(record, header.misc, body);
    case PERF_RECORD_LOST: {
      const auto lost = Read<LostBody>(body);
      record.kind = SwitchKind::kLost;
      if (lost) record.lost = lost->lost;
      return lost.has_value();
    }
    default:
      return false;
  }
}

}  // namespace

perf_event_attr SwitchEvent() {
  perf_event_attr attr{};
  attr.size = sizeof(attr);
  attr.type = PERF_TYPE_SOFTWARE;
  attr.config = PERF_COUNT_SW_DUMMY;
  attr.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU;
  attr.sample_id_all = 1;
  attr.disabled = 1;
  attr.inherit = 1;
  attr.exclude_kernel = 1;
  attr.exclude_hv = 1;
  attr.context_switch = 1;
  attr.task = 1;
  attr.comm = 1;
  attr.comm_exec = 1;
  attr.use_clockid = 1;
  attr.clockid = CLOCK_MONOTONIC;
  return attr;
}

std::optional<SwitchRecord> ParseSwitchRecord(std::span<const std::byte> bytes) {
  const auto header = Read<perf_event_header>(bytes);
  if (!header || header->size != bytes.size() || bytes.size() < sizeof(*header) + sizeof(SampleId)) return std::nullopt;
  const auto id = Read<SampleId>(bytes.last(sizeof(SampleId)));
  if (!id) return std::nullopt;
  SwitchRecord record;
  record.tgid = static_cast<int32_t>(id->tgid);
  record.tid = static_cast<int32_t>(id->tid);
  record.time_ns = static_cast<int64_t>(id->time_ns);
  record.cpu = static_cast<int32_t>(id->cpu);
  const auto body = bytes.subspan(sizeof(*header), bytes.size() - sizeof(*header) - sizeof(SampleId));
  if (!FillBody(record, *header, body)) return std::nullopt;
  return record;
}

}  // namespace stepscope
