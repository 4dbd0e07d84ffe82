// SPDX-License-Identifier: Apache-2.0
// What the agent is doing, in words, for status displays. Any thread reads; whoever changes the state writes.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace stepscope::agent {

class StateText {
 public:
  const char* Get() const { return __atomic_load_n(&current_, __ATOMIC_ACQUIRE); }

  // Concatenates the parts; texts stay readable for seven more changes. Setting the text it already has changes nothing.
  void Set(const char* first, const char* second = "", const char* third = "");
  // "<first><second>: error <number>", the number being that of errno; without the number where there is none (0).
  void SetError(const char* first, const char* second, long negative_errno);

 private:
  static constexpr uint32_t kTexts = 8;
  static constexpr size_t kTextBytes = 256;

  const char* current_ = "idle: no record yet";
  uint32_t next_ = 0;
  char texts_[kTexts][kTextBytes] = {};
};

}  // namespace stepscope::agent
