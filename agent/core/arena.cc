// SPDX-License-Identifier: Apache-2.0
#include "agent/core/arena.h"

#include <string.h>

namespace stepscope::agent {
namespace {

constexpr size_t kHeaderBytes = 16;  // keeps the user's part 16-byte aligned

}  // namespace

void Arena::Reset(void* memory, size_t bytes) {
  next_ = static_cast<uint8_t*>(memory);
  end_ = next_ + bytes;
  for (Piece*& first : free_) first = nullptr;
}

void* Arena::Allocate(size_t bytes) {
  int size_class = 0;
  while (size_class < kClasses && (size_t{1} << (size_class + kSmallestLog2)) - kHeaderBytes < bytes) ++size_class;
  if (size_class == kClasses) return nullptr;
  uint8_t* piece = reinterpret_cast<uint8_t*>(free_[size_class]);
  if (piece != nullptr) {
    memcpy(static_cast<void*>(&free_[size_class]), piece + kHeaderBytes, sizeof(Piece*));
    return piece + kHeaderBytes;
  }
  size_t piece_bytes = size_t{1} << (size_class + kSmallestLog2);
  if (static_cast<size_t>(end_ - next_) < piece_bytes) return nullptr;
  piece = next_;
  next_ += piece_bytes;
  uint64_t stored_class = static_cast<uint64_t>(size_class);
  memcpy(piece, &stored_class, sizeof(stored_class));
  return piece + kHeaderBytes;
}

void* Arena::AllocateZeroed(size_t count, size_t bytes) {
  if (bytes != 0 && count > SIZE_MAX / bytes) return nullptr;
  void* piece = Allocate(count * bytes);
  if (piece != nullptr) memset(piece, 0, count * bytes);
  return piece;
}

void* Arena::Reallocate(void* old, size_t bytes) {
  if (old == nullptr) return Allocate(bytes);
  uint64_t size_class;
  memcpy(&size_class, static_cast<uint8_t*>(old) - kHeaderBytes, sizeof(size_class));
  size_t old_bytes = (size_t{1} << (size_class + kSmallestLog2)) - kHeaderBytes;
  if (bytes <= old_bytes) return old;
  void* piece = Allocate(bytes);
  if (piece == nullptr) return nullptr;
  memcpy(piece, old, old_bytes);
  Free(old);
  return piece;
}

void Arena::Free(void* piece) {
  if (piece == nullptr) return;
  uint8_t* start = static_cast<uint8_t*>(piece) - kHeaderBytes;
  uint64_t size_class;
  memcpy(&size_class, start, sizeof(size_class));
  memcpy(start + kHeaderBytes, static_cast<const void*>(&free_[size_class]), sizeof(Piece*));
  free_[size_class] = reinterpret_cast<Piece*>(start);
}

}  // namespace stepscope::agent
