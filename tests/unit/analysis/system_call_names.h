// SPDX-License-Identifier: Apache-2.0
// The calls whose numbers the tests hold against the headers: X(name) for each that both machines know.
#pragma once

// A staircase otherwise.
// clang-format off
#define STEPSCOPE_SYSTEM_CALLS(X) \
  X(futex) X(futex_waitv) X(nanosleep) X(clock_nanosleep) X(ppoll) X(pselect6) X(epoll_pwait) X(epoll_pwait2) X(connect) \
  X(accept) X(accept4) X(sendto) X(recvfrom) X(sendmsg) X(recvmsg) X(recvmmsg) X(sendmmsg) X(read) X(write) X(readv) \
  X(writev) X(pread64) X(pwrite64) X(preadv) X(pwritev) X(preadv2) X(pwritev2) X(sendfile) X(splice) X(copy_file_range) \
  X(wait4) X(waitid) X(fsync) X(fdatasync) X(sync_file_range) X(msync) X(sync) X(syncfs) X(fallocate) X(io_getevents) \
  X(io_uring_enter) X(mmap) X(munmap) X(mprotect) X(madvise) X(brk) X(ioctl) X(openat) X(close) X(newfstatat) X(getdents64) \
  X(flock) X(fcntl) X(rt_sigsuspend) X(rt_sigtimedwait) X(restart_syscall) X(sched_yield) X(semop) X(semtimedop) X(msgrcv) \
  X(msgsnd) X(mq_timedreceive) X(clone) X(clone3) X(execve) X(exit) X(exit_group)
// clang-format on
