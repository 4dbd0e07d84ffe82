// SPDX-License-Identifier: Apache-2.0
// The memory of the HTTP/2 session: one fixed block, handed out in power-of-two pieces with a free list per size, emptied at
// every new connection. Exhausted means nullptr (the connection is given up), never more memory. One thread.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace stepscope::agent {

class Arena {
 public:
  // Uses [memory, memory + bytes); memory is 16-byte aligned.
  void Reset(void* memory, size_t bytes);

  void* Allocate(size_t bytes);
  void* AllocateZeroed(size_t count, size_t bytes);
  void* Reallocate(void* old, size_t bytes);
  void Free(void* piece);

 private:
  static constexpr int kSmallestLog2 = 5;
  static constexpr int kClasses = 16;  // pieces of 32 B to 1 MiB, their header included

  struct Piece;  // a 16-byte header with the size class, then the user's bytes, or the next free piece

  uint8_t* next_ = nullptr;
  uint8_t* end_ = nullptr;
  Piece* free_[kClasses] = {};
};

}  // namespace stepscope::agent
