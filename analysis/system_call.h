// SPDX-License-Identifier: Apache-2.0
// SystemCall: names and wait classes of the system calls a thread can sleep in, by number and machine. Numbers are those of the
// kernel's tables (x86-64: arch/x86/entry/syscalls/syscall_64.tbl; arm64: include/uapi/asm-generic/unistd.h), checked against
// the system's headers by a test.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace stepscope {

enum class Machine : uint8_t { kX86, kArm };

constexpr Machine ThisMachine() {
#if defined(__aarch64__)
  return Machine::kArm;
#else
  return Machine::kX86;
#endif
}

/// What a thread waits for in a call. kDescriptor: a read or write of a file, pipe or socket; the number alone does not say.
enum class CallClass : uint8_t { kFutex, kSleep, kPoll, kSocket, kDescriptor, kChild, kDisk, kOther };

struct SystemCall {
  static constexpr int16_t kNoNumber = -1;
  std::string_view name;
  int16_t x86 = kNoNumber;  ///< kNoNumber where the machine does not have it
  int16_t arm = kNoNumber;
  CallClass call_class = CallClass::kOther;
};

std::span<const SystemCall> KnownSystemCalls();
CallClass CallClassOf(int64_t number, Machine machine);
/// "poll", "futex", …; "syscall 333" for one that is not in the table, "" for a negative number (no call).
std::string SystemCallName(int64_t number, Machine machine);

}  // namespace stepscope
