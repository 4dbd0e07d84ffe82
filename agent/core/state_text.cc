// SPDX-License-Identifier: Apache-2.0
#include "agent/core/state_text.h"

#include <string.h>

namespace stepscope::agent {
namespace {

size_t Append(char* out, size_t capacity, size_t at, const char* part) {
  while (*part != '\0' && at + 1 < capacity) out[at++] = *part++;
  out[at] = '\0';
  return at;
}

}  // namespace

void StateText::Set(const char* first, const char* second, const char* third) {
  char text[kTextBytes];
  size_t bytes = Append(text, sizeof(text), 0, first);
  bytes = Append(text, sizeof(text), bytes, second);
  bytes = Append(text, sizeof(text), bytes, third);
  if (strcmp(text, Get()) == 0) return;
  char* slot = texts_[__atomic_fetch_add(&next_, 1u, __ATOMIC_RELAXED) % kTexts];
  memcpy(slot, text, bytes + 1);
  __atomic_store_n(&current_, slot, __ATOMIC_RELEASE);
}

void StateText::SetError(const char* first, const char* second, long negative_errno) {
  if (negative_errno == 0) return Set(first, second);
  char digits[24] = {};
  size_t at = sizeof(digits) - 1;
  unsigned long value = static_cast<unsigned long>(-negative_errno);
  do {
    digits[--at] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  char tail[48];
  size_t bytes = Append(tail, sizeof(tail), 0, ": error ");
  Append(tail, sizeof(tail), bytes, digits + at);
  Set(first, second, tail);
}

}  // namespace stepscope::agent
