// SPDX-License-Identifier: Apache-2.0
#include "trace/intern.h"

#include <fmt/format.h>

#include <algorithm>

namespace stepscope {
namespace {

/// Ids are given one after the other and read in order: a row this far behind the last one is damage, and must not make a table
/// huge.
constexpr uint32_t kMostHole = 1 << 16;

/// http://www.isthe.com/chongo/tech/comp/fnv/: stable over releases and machines, unlike std::hash.
uint64_t Fnv1a(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  return hash;
}

}  // namespace

std::string CutName(std::string_view text) {
  if (text.size() <= kMaxNameBytes) return std::string(text);
  const std::string suffix = fmt::format("~{:016x}", Fnv1a(text));
  size_t keep = kMaxNameBytes - suffix.size();
  while (keep > 0 && (static_cast<uint8_t>(text[keep]) & 0xC0) == 0x80) --keep;
  return std::string(text.substr(0, keep)) + suffix;
}

NameId NameTable::Intern(std::string_view text) {
  const absl::MutexLock lock(&mutex_);
  return InternLocked(text);
}

std::vector<NameId> NameTable::InternAll(const std::vector<std::string>& texts) {
  std::vector<NameId> ids;
  ids.reserve(texts.size());
  const absl::MutexLock lock(&mutex_);
  for (const std::string& text : texts) ids.push_back(InternLocked(text));
  return ids;
}

NameId NameTable::InternLocked(std::string_view text) {
  if (text.empty()) return {0};
  if (text.size() > kMaxNameBytes) return InternLocked(CutName(text));
  if (const auto known = ids_.find(text); known != ids_.end()) return {known->second};
  uint32_t id = static_cast<uint32_t>(texts_.size());
  if (text == kOtherName || id >= max_names_) {
    if (text != kOtherName) ++refused_;
    id = kOtherNameId.value;
    text = kOtherName;
    if (!texts_[id].empty()) return {id};
  }
  Place(id, text);
  new_.push_back({{id}, std::string(text)});
  return {id};
}

void NameTable::Place(uint32_t id, std::string_view text) {
  if (id >= texts_.size()) texts_.resize(id + 1);
  texts_[id] = text;
  ids_.emplace(texts_[id], id);
}

void NameTable::Load(NameId id, std::string_view text) {
  const absl::MutexLock lock(&mutex_);
  const bool possible = id.value <= kMaxRunNames && id.value <= texts_.size() + kMostHole;
  const bool taken = id.value < texts_.size() && !texts_[id.value].empty();
  if (id.value != 0 && possible && !text.empty() && !taken) Place(id.value, text);
}

std::string_view NameTable::Text(NameId id) const {
  const absl::MutexLock lock(&mutex_);
  return id.value < texts_.size() ? std::string_view(texts_[id.value]) : std::string_view();
}

std::vector<NameTable::NewName> NameTable::TakeNew() {
  const absl::MutexLock lock(&mutex_);
  return std::exchange(new_, {});
}

uint64_t NameTable::refused() const {
  const absl::MutexLock lock(&mutex_);
  return refused_;
}

size_t EntityTable::KeyHash::operator()(const EntityKey& key) const noexcept {
  size_t hash = std::hash<std::string_view>{}(key.text) + static_cast<size_t>(key.kind);
  for (int64_t part : {key.a, key.b, key.c}) hash = (hash ^ static_cast<uint64_t>(part)) * 0x9E3779B97F4A7C15u + (hash >> 29);
  return hash;
}

EntityId EntityTable::Intern(const EntityKey& key) {
  const absl::MutexLock lock(&mutex_);
  return InternLocked(key);
}

std::vector<EntityId> EntityTable::InternAll(const std::vector<EntityKey>& keys) {
  std::vector<EntityId> ids;
  ids.reserve(keys.size());
  const absl::MutexLock lock(&mutex_);
  for (const EntityKey& key : keys) ids.push_back(InternLocked(key));
  return ids;
}

EntityId EntityTable::InternLocked(const EntityKey& key) {
  const auto [at, added] = ids_.try_emplace(key, static_cast<uint32_t>(entities_.size()));
  if (added) {
    entities_.push_back({key, {}});
    new_.push_back(at->second);
  }
  return {at->second};
}

void EntityTable::Describe(EntityId id, const EntityAttributes& attributes) {
  const absl::MutexLock lock(&mutex_);
  if (id.value == 0 || id.value >= entities_.size() || entities_[id.value].attributes == attributes) return;
  entities_[id.value].attributes = attributes;
  new_.push_back(id.value);
}

void EntityTable::Load(EntityId id, const Entity& entity) {
  const absl::MutexLock lock(&mutex_);
  if (id.value == 0 || id.value > entities_.size() + kMostHole) return;
  if (id.value >= entities_.size()) entities_.resize(id.value + 1);
  entities_[id.value] = entity;
  ids_.insert_or_assign(entity.key, id.value);
}

Entity EntityTable::Find(EntityId id) const {
  const absl::MutexLock lock(&mutex_);
  return id.value < entities_.size() ? entities_[id.value] : Entity{};
}

std::vector<std::pair<EntityId, Entity>> EntityTable::TakeNew() {
  const absl::MutexLock lock(&mutex_);
  std::sort(new_.begin(), new_.end());
  new_.erase(std::unique(new_.begin(), new_.end()), new_.end());
  std::vector<std::pair<EntityId, Entity>> taken;
  taken.reserve(new_.size());
  for (uint32_t id : new_) taken.emplace_back(EntityId{id}, entities_[id]);
  new_.clear();
  return taken;
}

size_t EntityTable::size() const {
  const absl::MutexLock lock(&mutex_);
  return entities_.size() - 1;
}

}  // namespace stepscope
