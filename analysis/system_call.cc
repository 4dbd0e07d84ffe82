// SPDX-License-Identifier: Apache-2.0
#include "analysis/system_call.h"

#include <fmt/format.h>

#include <array>

namespace stepscope {
namespace {

using enum CallClass;
constexpr int16_t kNone = SystemCall::kNoNumber;

constexpr auto kCalls = std::to_array<SystemCall>({
    {"futex", 202, 98, kFutex},
    {"futex_waitv", 449, 449, kFutex},
    {"futex_wait", 455, 455, kFutex},
    {"nanosleep", 35, 101, kSleep},
    {"clock_nanosleep", 230, 115, kSleep},
    {"poll", 7, kNone, kPoll},
    {"ppoll", 271, 73, kPoll},
    {"select", 23, kNone, kPoll},
    {"pselect6", 270, 72, kPoll},
    {"epoll_wait", 232, kNone, kPoll},
    {"epoll_pwait", 281, 22, kPoll},
    {"epoll_pwait2", 441, 441, kPoll},
    {"connect", 42, 203, kSocket},
    {"accept", 43, 202, kSocket},
    {"accept4", 288, 242, kSocket},
    {"sendto", 44, 206, kSocket},
    {"recvfrom", 45, 207, kSocket},
    {"sendmsg", 46, 211, kSocket},
    {"recvmsg", 47, 212, kSocket},
    {"recvmmsg", 299, 243, kSocket},
    {"sendmmsg", 307, 269, kSocket},
    {"read", 0, 63, kDescriptor},
    {"write", 1, 64, kDescriptor},
    {"readv", 19, 65, kDescriptor},
    {"writev", 20, 66, kDescriptor},
    {"pread64", 17, 67, kDescriptor},
    {"pwrite64", 18, 68, kDescriptor},
    {"preadv", 295, 69, kDescriptor},
    {"pwritev", 296, 70, kDescriptor},
    {"preadv2", 327, 286, kDescriptor},
    {"pwritev2", 328, 287, kDescriptor},
    {"sendfile", 40, 71, kDescriptor},
    {"splice", 275, 76, kDescriptor},
    {"copy_file_range", 326, 285, kDescriptor},
    {"wait4", 61, 260, kChild},
    {"waitid", 247, 95, kChild},
    {"fsync", 74, 82, kDisk},
    {"fdatasync", 75, 83, kDisk},
    {"sync_file_range", 277, 84, kDisk},
    {"msync", 26, 227, kDisk},
    {"sync", 162, 81, kDisk},
    {"syncfs", 306, 267, kDisk},
    {"fallocate", 285, 47, kDisk},
    {"io_getevents", 208, 4, kDisk},
    {"io_uring_enter", 426, 426, kOther},
    {"mmap", 9, 222, kOther},
    {"munmap", 11, 215, kOther},
    {"mprotect", 10, 226, kOther},
    {"madvise", 28, 233, kOther},
    {"brk", 12, 214, kOther},
    {"ioctl", 16, 29, kOther},
    {"open", 2, kNone, kOther},
    {"openat", 257, 56, kOther},
    {"close", 3, 57, kOther},
    {"newfstatat", 262, 79, kOther},
    {"getdents64", 217, 61, kOther},
    {"flock", 73, 32, kOther},
    {"fcntl", 72, 25, kOther},
    {"pause", 34, kNone, kOther},
    {"rt_sigsuspend", 130, 133, kOther},
    {"rt_sigtimedwait", 128, 137, kOther},
    {"restart_syscall", 219, 128, kOther},
    {"sched_yield", 24, 124, kOther},
    {"semop", 65, 193, kOther},
    {"semtimedop", 220, 192, kOther},
    {"msgrcv", 70, 188, kOther},
    {"msgsnd", 69, 189, kOther},
    {"mq_timedreceive", 243, 183, kOther},
    {"clone", 56, 220, kOther},
    {"clone3", 435, 435, kOther},
    {"vfork", 58, kNone, kOther},
    {"execve", 59, 221, kOther},
    {"exit", 60, 93, kOther},
    {"exit_group", 231, 94, kOther},
});

const SystemCall* Find(int64_t number, Machine machine) {
  if (number < 0) return nullptr;
  for (const SystemCall& call : kCalls) {
    if ((machine == Machine::kX86 ? call.x86 : call.arm) == number) return &call;
  }
  return nullptr;
}

}  // namespace

std::span<const SystemCall> KnownSystemCalls() { return kCalls; }

CallClass CallClassOf(int64_t number, Machine machine) {
  const SystemCall* call = Find(number, machine);
  return call == nullptr ? kOther : call->call_class;
}

std::string SystemCallName(int64_t number, Machine machine) {
  if (number < 0) return "";
  const SystemCall* call = Find(number, machine);
  return call == nullptr ? fmt::format("syscall {}", number) : std::string(call->name);
}

}  // namespace stepscope
