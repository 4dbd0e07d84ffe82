// SPDX-License-Identifier: Apache-2.0
#include "agent/core/held_fd.h"

#include "agent/core/kernel_call.h"

namespace stepscope::agent {

void HeldFd::Hold(int fd) {
  constexpr long kLowest = 512;
  long high = KernelCall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, kLowest);
  if (!IsError(high)) {
    KernelCall(SYS_close, fd);
    fd = static_cast<int>(high);
  }
  struct stat status{};
  if (IsError(KernelCall(SYS_fstat, fd, PointerArgument(&status)))) return;
  fd_ = fd;
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

int HeldFd::Use() {
  if (fd_ < 0) return -1;
  struct stat status{};
  bool ours =
      !IsError(KernelCall(SYS_fstat, fd_, PointerArgument(&status))) && status.st_dev == device_ && status.st_ino == inode_;
  if (!ours) fd_ = -1;
  return fd_;
}

void HeldFd::Close() {
  int fd = Use();
  if (fd >= 0) KernelCall(SYS_close, fd);
  fd_ = -1;
}

}  // namespace stepscope::agent
