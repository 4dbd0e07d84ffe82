// SPDX-License-Identifier: Apache-2.0
// ForeignFiles: closes descriptors that a stranger sent and that are no memfds. Where a program answers for the file (FUSE),
// fstat, read and even close wait for as long as it likes, beyond the reach of signals: nothing but close is called on such a
// file, by a thread of its own.
//
// Thread rule: any thread. Threads that wait in close outlive this.
#pragma once

#include <cstdint>
#include <memory>

#include "base/unique_fd.h"

namespace stepscope {

class ForeignFiles {
 public:
  ForeignFiles();
  /// True for a descriptor of memory (memfd, hugetlbfs): no other program is asked about it.
  static bool IsMemory(int fd);
  void Close(uint32_t uid, unique_fd file);
  /// True while so many files of the user are being closed that no more may be taken from it.
  bool Full(uint32_t uid) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace stepscope
