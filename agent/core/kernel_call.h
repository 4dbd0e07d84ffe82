// SPDX-License-Identifier: Apache-2.0
// System calls of the agent, made directly: no errno to disturb in the host, no pthread cancellation point in a user's thread,
// no interposed wrapper of another library, and no dependence on a newer libc. A result in [-4095, -1] is -errno.
#pragma once

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace stepscope::agent {

#if defined(__x86_64__)
inline long KernelCall(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}
#elif defined(__aarch64__)
inline long KernelCall(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
}
#else
#error "the agent knows x86-64 and arm64"
#endif

inline bool IsError(long result) { return result < 0 && result > -4096; }

inline long PointerArgument(const void* pointer) { return reinterpret_cast<long>(pointer); }
inline void* PointerResult(long result) {
  return reinterpret_cast<void*>(result);  // NOLINT(performance-no-int-to-ptr): the kernel returns addresses as numbers
}

inline int32_t ThreadId() { return static_cast<int32_t>(KernelCall(SYS_gettid)); }
inline int32_t ProcessId() { return static_cast<int32_t>(KernelCall(SYS_getpid)); }

// Zeroed private memory, never given back; nullptr when the kernel refuses. Only touched pages cost anything.
inline void* MapPrivate(size_t bytes) {
  long result = KernelCall(SYS_mmap, 0, static_cast<long>(bytes), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return IsError(result) ? nullptr : PointerResult(result);
}

// Fills `bytes` of memory with random bytes; false when the kernel has none to give.
inline bool RandomBytes(void* memory, size_t bytes) {
#ifdef SYS_getrandom
  constexpr long kNonBlocking = 1;
  if (KernelCall(SYS_getrandom, PointerArgument(memory), static_cast<long>(bytes), kNonBlocking) == static_cast<long>(bytes)) {
    return true;
  }
#endif
  long fd = KernelCall(SYS_openat, AT_FDCWD, PointerArgument("/dev/urandom"), O_RDONLY | O_CLOEXEC);
  if (IsError(fd)) return false;
  long got = KernelCall(SYS_read, fd, PointerArgument(memory), static_cast<long>(bytes));
  KernelCall(SYS_close, fd);
  return got == static_cast<long>(bytes);
}

}  // namespace stepscope::agent
