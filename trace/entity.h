// SPDX-License-Identifier: Apache-2.0
// An entity as the store keeps it: what makes it the same again (EntityKey) and what is worth showing about it. The bytes are
// those of a Protocol Buffers message, described in docs/formats/keys.md, so any protobuf reader can read them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trace/address_range.h"
#include "trace/batch.h"

namespace stepscope {

struct EntityAttributes {
  std::string display;             ///< comm of a thread, command of a process, name of a metric's owner
  std::vector<int32_t> inner_ids;  ///< its id in each pid namespace below the host's, outermost first
  int32_t rank = -1;               ///< of a process; -1 = none. Stored as rank + 1
  AddressRange gil{};              ///< of a process: its interpreter's lock; empty = not known
  friend bool operator==(const EntityAttributes&, const EntityAttributes&) = default;
};

struct Entity {
  EntityKey key;
  EntityAttributes attributes;
  friend bool operator==(const Entity&, const Entity&) = default;
};

std::string EncodeEntity(const Entity& entity);
/// Unknown fields are skipped. DATA_LOSS for bytes that are no such message.
absl::StatusOr<Entity> DecodeEntity(std::string_view bytes);

/// Meta id of an entity's row (kind "entity/<run>"): the id, big-endian, so that rows come in id order.
std::string EntityMetaId(EntityId id);
/// 0 if `meta_id` is not four bytes.
EntityId EntityOfMetaId(std::string_view meta_id);

}  // namespace stepscope
