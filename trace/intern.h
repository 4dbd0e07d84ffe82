// SPDX-License-Identifier: Apache-2.0
// Run-wide dictionaries: texts to NameId, entity keys to EntityId. All shards of a run share one of each.
//
// What is new since the last TakeNew() goes into the same seal as the rows that use it. Take and hand the seal to the writer
// under one lock of the caller, or from one thread: a row must not reach the store before its name does. A taken row that
// could not be committed is the caller's to keep (the writer retries the whole seal).
//
// Thread rule: all methods may be called from any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/ids.h"
#include "trace/entity.h"

namespace stepscope {

constexpr size_t kMaxNameBytes = 4096;
constexpr uint32_t kMaxRunNames = 1'000'000;
constexpr std::string_view kOtherName = "(other)";
/// What every name beyond the cap becomes. Id 0 is the empty name.
constexpr NameId kOtherNameId{1};

/// `text` itself up to kMaxNameBytes; longer texts are cut at a UTF-8 boundary and end in "~" and 16 hex digits of their FNV-1a
/// hash, so that different long names stay different.
std::string CutName(std::string_view text);

class NameTable {
 public:
  struct NewName {
    NameId id;
    std::string text;
  };

  explicit NameTable(uint32_t max_names = kMaxRunNames) : max_names_(max_names) {}

  /// Id of CutName(text); kOtherNameId once the table is full.
  NameId Intern(std::string_view text);
  /// The same for a whole local dictionary under one lock: result[i] is the id of texts[i].
  std::vector<NameId> InternAll(const std::vector<std::string>& texts);
  /// A row of the store, before the first Intern(). Ids may come in any order, with holes.
  void Load(NameId id, std::string_view text);

  /// Text of `id`; empty for ids never given. Stays valid as long as the table.
  std::string_view Text(NameId id) const;
  /// Names first seen since the last call.
  std::vector<NewName> TakeNew();
  /// How often a name found the table full: the count of a loss row with reason kNameCap.
  uint64_t refused() const;

 private:
  NameId InternLocked(std::string_view text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Place(uint32_t id, std::string_view text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint32_t max_names_;
  mutable absl::Mutex mutex_;
  std::deque<std::string> texts_ ABSL_GUARDED_BY(mutex_) = {"", ""};  ///< by id; addresses never move
  std::unordered_map<std::string_view, uint32_t> ids_ ABSL_GUARDED_BY(mutex_);
  std::vector<NewName> new_ ABSL_GUARDED_BY(mutex_);
  uint64_t refused_ ABSL_GUARDED_BY(mutex_) = 0;
};

class EntityTable {
 public:
  /// Id of the entity with this key, a new one if the run has none. Ids begin at 1.
  EntityId Intern(const EntityKey& key);
  std::vector<EntityId> InternAll(const std::vector<EntityKey>& keys);
  /// Sets what is known about an entity; it counts as new again if that changed anything.
  void Describe(EntityId id, const EntityAttributes& attributes);
  void Load(EntityId id, const Entity& entity);

  /// A copy: attributes change. Empty entity of kind kNode for ids never given.
  Entity Find(EntityId id) const;
  /// Entities first seen or described anew since the last call, by ascending id.
  std::vector<std::pair<EntityId, Entity>> TakeNew();
  size_t size() const;

 private:
  struct KeyHash {
    size_t operator()(const EntityKey& key) const noexcept;
  };
  EntityId InternLocked(const EntityKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::vector<Entity> entities_ ABSL_GUARDED_BY(mutex_) = {{}};  ///< by id; 0 is no entity
  std::unordered_map<EntityKey, uint32_t, KeyHash> ids_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> new_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stepscope
