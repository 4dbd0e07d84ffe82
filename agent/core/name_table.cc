// SPDX-License-Identifier: Apache-2.0
// Open addressing: a slot holds {upper hash bits, id} in one word and goes from 0 to its value once, by compare-exchange. Name
// and text are written before that, so whoever sees the slot sees the name. A thread that loses the race leaves its id unused.
#include "agent/core/name_table.h"

#include <string.h>

#include "agent/core/kernel_call.h"
#include "agent/core/name_text.h"

namespace stepscope::agent {
namespace {

constexpr uint64_t kSlots = uint64_t{2} * STEPSCOPE_NAME_MAX_COUNT;
constexpr uint64_t kTextBytes = 32u << 20;
constexpr uint32_t kFirstFreeId = STEPSCOPE_NAME_OTHER + 1;
constexpr Name kOther{0, 7, 0, 0, "(other)"};

uint64_t SlotValue(uint64_t hash, uint32_t id) { return (hash & ~0xFFFFFFFFull) | id; }

}  // namespace

struct NameTable::Memory {
  uint64_t slots[kSlots];                // atomic
  Name names[STEPSCOPE_NAME_MAX_COUNT];  // [0] and [STEPSCOPE_NAME_OTHER] unused
  uint32_t next_id;                      // atomic, counts from kFirstFreeId
  uint64_t text_used;                    // atomic
  char text[kTextBytes];
};

NameTable::Memory* NameTable::Ready() {
  Memory* memory = __atomic_load_n(&memory_, __ATOMIC_ACQUIRE);
  if (memory != nullptr) return memory;
  auto* fresh = static_cast<Memory*>(MapPrivate(sizeof(Memory)));
  if (fresh == nullptr) return nullptr;
  if (__atomic_compare_exchange_n(&memory_, &memory, fresh, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return fresh;
  KernelCall(SYS_munmap, PointerArgument(fresh), sizeof(Memory));
  return memory;
}

const Name* NameTable::Find(uint32_t id) const {
  if (id == STEPSCOPE_NAME_OTHER) return &kOther;
  const Memory* memory = __atomic_load_n(&memory_, __ATOMIC_ACQUIRE);
  if (memory == nullptr || id >= STEPSCOPE_NAME_MAX_COUNT) return nullptr;
  const Name* name = &memory->names[id];
  return name->text != nullptr ? name : nullptr;
}

uint32_t NameTable::Add(Memory* memory, const char* text, size_t bytes, const Name& name) {
  if (__atomic_load_n(&memory->next_id, __ATOMIC_RELAXED) >= STEPSCOPE_NAME_MAX_COUNT - kFirstFreeId) return STEPSCOPE_NAME_OTHER;
  uint64_t at = __atomic_fetch_add(&memory->text_used, bytes, __ATOMIC_RELAXED);
  if (at + bytes > kTextBytes) return STEPSCOPE_NAME_OTHER;
  uint32_t id = kFirstFreeId + __atomic_fetch_add(&memory->next_id, 1u, __ATOMIC_RELAXED);
  if (id >= STEPSCOPE_NAME_MAX_COUNT) return STEPSCOPE_NAME_OTHER;
  memcpy(memory->text + at, text, bytes);
  memory->names[id] = name;
  memory->names[id].text = memory->text + at;
  return id;
}

uint32_t NameTable::Intern(const char* text, size_t bytes, uint16_t domain) {
  Memory* memory = Ready();
  if (memory == nullptr) return STEPSCOPE_NAME_OTHER;
  NameText made;
  MakeNameText(text, bytes, &made);
  const Name wanted{HashBytes(made.text, made.bytes, domain), static_cast<uint32_t>(made.bytes), domain,
                    static_cast<uint16_t>(made.cut ? 1 : 0), nullptr};
  uint32_t added = 0;
  for (uint64_t probe = 0; probe < kSlots; ++probe) {
    uint64_t* slot = &memory->slots[(wanted.hash + probe) % kSlots];
    uint64_t value = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    if (value == 0) {
      if (added == 0) added = Add(memory, made.text, made.bytes, wanted);
      if (added == STEPSCOPE_NAME_OTHER) return added;
      if (__atomic_compare_exchange_n(slot, &value, SlotValue(wanted.hash, added), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        return added;
      }
    }
    uint32_t id = static_cast<uint32_t>(value);
    const Name& name = memory->names[id];
    if (SlotValue(wanted.hash, id) == value && name.bytes == wanted.bytes && name.domain == domain &&
        memcmp(name.text, made.text, made.bytes) == 0) {
      return id;
    }
  }
  return STEPSCOPE_NAME_OTHER;
}

}  // namespace stepscope::agent
