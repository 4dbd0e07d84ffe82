// SPDX-License-Identifier: Apache-2.0
#include "agent/core/held_fd.h"

#include <initializer_list>

#include "agent/core/kernel_call.h"

namespace stepscope::agent {

// Between any two of these calls the host may close numbers it does not know and get one of them for a file of its own.
void HeldFd::Hold(int fd) {
  struct stat status{};
  if (IsError(KernelCall(SYS_fstat, fd, PointerArgument(&status)))) return;
  fd_ = fd;
  device_ = status.st_dev;
  inode_ = status.st_ino;
  for (long lowest : {512, 128, 32}) {
    const long high = KernelCall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, lowest);
    if (IsError(high)) continue;  // the limit of descriptors is lower
    Close();
    if (IsOurs(static_cast<int>(high))) fd_ = static_cast<int>(high);
    return;
  }
}

bool HeldFd::IsOurs(int fd) const {
  struct stat status{};
  return !IsError(KernelCall(SYS_fstat, fd, PointerArgument(&status))) && status.st_dev == device_ && status.st_ino == inode_;
}

int HeldFd::Use() {
  if (fd_ >= 0 && !IsOurs(fd_)) fd_ = -1;
  return fd_;
}

void HeldFd::Close() {
  int fd = Use();
  if (fd >= 0) KernelCall(SYS_close, fd);
  fd_ = -1;
}

}  // namespace stepscope::agent
