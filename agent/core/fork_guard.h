// SPDX-License-Identifier: Apache-2.0
// Tells a process from its forked copies without a system call: one word in a page the kernel wipes in every child
// (MADV_WIPEONFORK), however the child came to be. The word holds a random token; whoever remembers another one, or reads 0, is
// in a new process. (getpid() costs 50 times as much, and atfork handlers do not run for a raw clone.)
#pragma once

#include <stdint.h>

namespace stepscope::agent {

class ForkGuard {
 public:
  static constexpr uint64_t kWiped = 0;
  static constexpr uint64_t kBeingRenewed = 1;

  // Maps the page; false where the kernel cannot wipe it (before Linux 4.14). Once, before any record.
  bool Arm();
  bool armed() const { return word_ != &kUnarmed; }

  uint64_t Token() const { return __atomic_load_n(word_, __ATOMIC_ACQUIRE); }

  // In a new process: exactly one caller gets true and must call Renew() after putting everything else in order.
  bool StartRenewal() {
    uint64_t expected = kWiped;
    return __atomic_compare_exchange_n(const_cast<uint64_t*>(word_), &expected, kBeingRenewed, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
  }
  void Renew();

 private:
  static constexpr uint64_t kUnarmed = kWiped;
  const uint64_t* word_ = &kUnarmed;
};

}  // namespace stepscope::agent
