// SPDX-License-Identifier: Apache-2.0
// One record of a perf ring as OwnCollector understands it: a thread came on a CPU or left it, began, ended, or got a name; or
// the kernel had no room. Every byte is checked against the record's size: the ring is shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

struct perf_event_attr;

namespace stepscope {

enum class SwitchKind : uint8_t {
  kIn,           ///< came on the CPU
  kOutBlocked,   ///< left it and waits for something
  kOutRunnable,  ///< lost it and wants to go on
  kFork,         ///< `tid` of `tgid` was made by parent_tid of parent_tgid
  kExit,         ///< last record of a thread: written before it leaves the CPU for good
  kComm,
  kExec,  ///< a new program, with its name
  kLost,  ///< `lost` records found the ring full
};

struct SwitchRecord {
  SwitchKind kind = SwitchKind::kIn;
  int32_t cpu = 0;
  int32_t tgid = 0;  ///< ids as the daemon's pid namespace numbers them
  int32_t tid = 0;
  int32_t parent_tgid = 0;
  int32_t parent_tid = 0;
  int64_t time_ns = 0;  ///< CLOCK_MONOTONIC
  uint64_t lost = 0;
  std::string comm;
};

/// The event whose records ParseSwitchRecord reads: of one thread and, by inheritance, of those it makes; no rights needed for
/// threads of the same user.
perf_event_attr SwitchEvent();

/// Bytes of a switch record, by which a loss is valued.
constexpr int64_t kSwitchRecordBytes = 32;

/// nullopt for types without use here and for records that are cut.
std::optional<SwitchRecord> ParseSwitchRecord(std::span<const std::byte> record);

}  // namespace stepscope
