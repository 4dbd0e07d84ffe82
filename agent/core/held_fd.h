// SPDX-License-Identifier: Apache-2.0
// A file descriptor in a process that is not ours: kept high (>= 512 where the limit allows) and close-on-exec, out of the way of
// programs that count on low numbers, and remembered with its device and inode. A host may close every descriptor it does not
// know and open others under the same number, so the identity is compared before each use; a stranger's number is forgotten,
// never closed.
#pragma once

#include <stdint.h>

namespace stepscope::agent {

class HeldFd {
 public:
  // Takes over a fresh descriptor, moving it up as far as the process's limit allows.
  void Hold(int fd);
  // The number if it is still ours, else -1 (and it is forgotten).
  int Use();
  // Closes it if it is still ours.
  void Close();
  // Forgets it without closing.
  void Forget() { fd_ = -1; }
  bool held() const { return fd_ >= 0; }

 private:
  bool IsOurs(int fd) const;

  int fd_ = -1;
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
};

}  // namespace stepscope::agent
