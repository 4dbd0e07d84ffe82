// SPDX-License-Identifier: Apache-2.0
#include "daemon/upload/lane_directory.h"

#include <fmt/format.h>

namespace stepscope {
namespace {

std::string LabelOf(const EntityInfo& entity) {
  const EntityKey& key = entity.key;
  switch (key.kind) {
    case EntityKind::kNode:
      return "node";
    case EntityKind::kProcess:
      return entity.name.empty() ? fmt::format("process {}", key.a) : entity.name;
    case EntityKind::kThread:
      return entity.name.empty() ? fmt::format("thread {}", key.c) : entity.name;
    case EntityKind::kCpu:
      return fmt::format("cpu {}", key.a);
    case EntityKind::kRank:
      return fmt::format("rank {}", key.a);
    default:
      return key.text.empty() ? entity.name : key.text;
  }
}

}  // namespace

LaneDirectory::LaneDirectory(const RunDictionary& dictionary, RunId run) : dictionary_(dictionary), run_(run) {
  for (auto& [id, entity] : dictionary.Entities(run)) {
    if (entity.key.kind == EntityKind::kProcess) processes_[{entity.key.a, entity.key.b}] = entity;
    entities_.emplace(id.value, std::move(entity));
  }
}

LaneIdentity LaneDirectory::Lane(EntityId id) const {
  const auto known = entities_.find(id.value);
  const EntityInfo entity = known != entities_.end() ? known->second : dictionary_.Entity(run_, id);
  const EntityKey& key = entity.key;
  LaneIdentity lane;
  lane.name = LabelOf(entity);
  lane.rank = key.kind == EntityKind::kRank ? static_cast<int32_t>(key.a) : entity.rank;
  const bool of_process = key.kind == EntityKind::kProcess || key.kind == EntityKind::kThread || key.kind == EntityKind::kMetric;
  if (of_process) {
    lane.pid = static_cast<int32_t>(key.a);
    if (const auto process = processes_.find({key.a, key.b}); process != processes_.end()) {
      lane.process = process->second.name;
      if (lane.rank < 0) lane.rank = process->second.rank;
    }
  }
  if (key.kind == EntityKind::kThread) {
    lane.tid = static_cast<int32_t>(key.c);
    lane.thread = entity.name;
  }
  return lane;
}

}  // namespace stepscope
