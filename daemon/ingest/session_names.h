// SPDX-License-Identifier: Apache-2.0
// SessionNames: the name dictionaries of a session's rings. Each ring defines its ids itself (rings are decoded on their own),
// the texts are kept once per session, and a process cannot make the daemon hold more than a bounded amount of them.
//
// Thread rule: the session's worker only.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>

#include "absl/container/flat_hash_map.h"
#include "daemon/ingest/ring_state.h"

namespace stepscope {

struct NameEntry {
  uint8_t domain = 0;
  uint8_t flags = 0;
  const std::string* text = nullptr;  ///< stable for the session's life: equal texts, equal pointers
};

class SessionNames {
 public:
  SessionNames();
  /// False when the session's caps are reached; the id then means "(other)".
  bool Define(uint32_t ring, uint32_t id, const RingName& name);
  /// "" for 0, "(other)" for STEPSCOPE_NAME_OTHER, "(unknown)" for an id the ring never defined.
  NameEntry Find(uint32_t ring, uint32_t id) const;
  const std::string* window() const { return window_; }

 private:
  std::unordered_set<std::string> texts_;
  uint64_t text_bytes_ = 0;
  absl::flat_hash_map<uint64_t, NameEntry> entries_;  ///< ring << 32 | id
  const std::string* empty_;
  const std::string* other_;
  const std::string* unknown_;
  const std::string* window_;
};

}  // namespace stepscope
