// SPDX-License-Identifier: Apache-2.0
// The names of a process: text ↔ 32-bit id, for as long as the process lives. Lock-free and append-only, in memory that a forked
// child inherits, so an id stays valid through fork and through any number of sessions. A name travels to the daemon as a NAME
// record in front of its first use in each ring (ring_writer.h).
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "contract/ring.h"

namespace stepscope::agent {

// A name as it is recorded. Never changes once visible.
struct Name {
  uint64_t hash;
  uint32_t bytes;
  uint16_t domain;
  uint16_t flags;  // as in stepscope_record_name
  const char* text;
};

class NameTable {
 public:
  // The id of {text, domain}: existing, new, or STEPSCOPE_NAME_OTHER when ids or memory are used up. Repairs and cuts; does not
  // split numbers. Any thread.
  uint32_t Intern(const char* text, size_t bytes, uint16_t domain);

  // nullptr for an id that was never handed out.
  const Name* Find(uint32_t id) const;

 private:
  struct Memory;
  Memory* Ready();
  uint32_t Add(Memory* memory, const char* text, size_t bytes, const Name& name);

  Memory* memory_ = nullptr;  // atomic
};

}  // namespace stepscope::agent
