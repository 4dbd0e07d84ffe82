// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/session_names.h"

#include "contract/ring.h"

namespace stepscope {
namespace {

constexpr uint64_t kMaxTextBytes = 32 << 20;
constexpr size_t kMaxEntries = size_t{4} * STEPSCOPE_NAME_MAX_COUNT;  // a name is defined anew in each ring that uses it

uint64_t KeyOf(uint32_t ring, uint32_t id) { return uint64_t{ring} << 32 | id; }

}  // namespace

SessionNames::SessionNames()
    : empty_(&*texts_.emplace("").first),
      other_(&*texts_.emplace("(other)").first),
      unknown_(&*texts_.emplace("(unknown)").first),
      window_(&*texts_.emplace("window").first) {}

bool SessionNames::Define(uint32_t ring, uint32_t id, const RingName& name) {
  NameEntry entry{name.domain, name.flags, other_};
  auto known = texts_.find(name.text);
  const bool room = entries_.size() < kMaxEntries;
  if (known == texts_.end() && room && texts_.size() < STEPSCOPE_NAME_MAX_COUNT &&
      text_bytes_ + name.text.size() <= kMaxTextBytes) {
    known = texts_.insert(name.text).first;
    text_bytes_ += name.text.size();
  }
  if (known != texts_.end()) entry.text = &*known;
  if (room) entries_.insert_or_assign(KeyOf(ring, id), entry);
  return room && known != texts_.end();
}

NameEntry SessionNames::Find(uint32_t ring, uint32_t id) const {
  const auto found = entries_.find(KeyOf(ring, id));
  if (found != entries_.end()) return found->second;
  if (id == 0) return {0, 0, empty_};
  return {0, 0, id == STEPSCOPE_NAME_OTHER ? other_ : unknown_};
}

}  // namespace stepscope
