// SPDX-License-Identifier: Apache-2.0
// The arm64 column of the system call table against the generic table arm64 uses. A file of its own: those names collide with the
// ones of the machine the test runs on, so the generic header comes last and wins.
#include <gtest/gtest.h>

#include <map>
#include <string_view>

#include "analysis/system_call.h"

#define __BITS_PER_LONG 64
#include <asm-generic/unistd.h>

namespace stepscope {
namespace {

TEST(SystemCalls, ArmNumbersAreTheGenericTables) {
#define STEPSCOPE_NUMBER(name) {#name, __NR_##name}
  const std::map<std::string_view, int64_t> header = {
      STEPSCOPE_NUMBER(futex),
      STEPSCOPE_NUMBER(nanosleep),
      STEPSCOPE_NUMBER(clock_nanosleep),
      STEPSCOPE_NUMBER(ppoll),
      STEPSCOPE_NUMBER(pselect6),
      STEPSCOPE_NUMBER(epoll_pwait),
      STEPSCOPE_NUMBER(connect),
      STEPSCOPE_NUMBER(accept),
      STEPSCOPE_NUMBER(accept4),
      STEPSCOPE_NUMBER(sendto),
      STEPSCOPE_NUMBER(recvfrom),
      STEPSCOPE_NUMBER(sendmsg),
      STEPSCOPE_NUMBER(recvmsg),
      STEPSCOPE_NUMBER(recvmmsg),
      STEPSCOPE_NUMBER(sendmmsg),
      STEPSCOPE_NUMBER(read),
      STEPSCOPE_NUMBER(write),
      STEPSCOPE_NUMBER(readv),
      STEPSCOPE_NUMBER(writev),
      STEPSCOPE_NUMBER(pread64),
      STEPSCOPE_NUMBER(pwrite64),
      STEPSCOPE_NUMBER(preadv),
      STEPSCOPE_NUMBER(pwritev),
      STEPSCOPE_NUMBER(preadv2),
      STEPSCOPE_NUMBER(pwritev2),
      STEPSCOPE_NUMBER(splice),
      STEPSCOPE_NUMBER(copy_file_range),
      STEPSCOPE_NUMBER(wait4),
      STEPSCOPE_NUMBER(waitid),
      STEPSCOPE_NUMBER(fsync),
      STEPSCOPE_NUMBER(fdatasync),
      STEPSCOPE_NUMBER(sync_file_range),
      STEPSCOPE_NUMBER(msync),
      STEPSCOPE_NUMBER(sync),
      STEPSCOPE_NUMBER(syncfs),
      STEPSCOPE_NUMBER(fallocate),
      STEPSCOPE_NUMBER(io_getevents),
      STEPSCOPE_NUMBER(munmap),
      STEPSCOPE_NUMBER(mprotect),
      STEPSCOPE_NUMBER(madvise),
      STEPSCOPE_NUMBER(brk),
      STEPSCOPE_NUMBER(ioctl),
      STEPSCOPE_NUMBER(openat),
      STEPSCOPE_NUMBER(close),
      STEPSCOPE_NUMBER(getdents64),
      STEPSCOPE_NUMBER(flock),
      STEPSCOPE_NUMBER(rt_sigsuspend),
      STEPSCOPE_NUMBER(rt_sigtimedwait),
      STEPSCOPE_NUMBER(restart_syscall),
      STEPSCOPE_NUMBER(sched_yield),
      STEPSCOPE_NUMBER(semop),
      STEPSCOPE_NUMBER(semtimedop),
      STEPSCOPE_NUMBER(msgrcv),
      STEPSCOPE_NUMBER(msgsnd),
      STEPSCOPE_NUMBER(mq_timedreceive),
      STEPSCOPE_NUMBER(clone),
      STEPSCOPE_NUMBER(execve),
      STEPSCOPE_NUMBER(exit),
      STEPSCOPE_NUMBER(exit_group),
  };
#undef STEPSCOPE_NUMBER
  for (const SystemCall& known : KnownSystemCalls()) {
    const auto expected = header.find(known.name);
    if (expected == header.end()) continue;
    EXPECT_EQ(known.arm, expected->second) << known.name;
  }
}

}  // namespace
}  // namespace stepscope
