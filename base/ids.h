// SPDX-License-Identifier: Apache-2.0
// Small integer identities used across folders. Each is its own type, so a thread id never lands in a run id's place.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace stepscope {

template <typename Tag, typename Int>
struct Id {
  Int value = 0;
  friend constexpr auto operator<=>(Id, Id) = default;
};

/// Host process id (tgid in the initial pid namespace).
using Pid = Id<struct PidTag, int32_t>;
/// Host thread id.
using Tid = Id<struct TidTag, int32_t>;
/// Number the store allots per (job, attempt, boot, reopening); 0 = none. Every store key begins with it.
using RunId = Id<struct RunTag, uint32_t>;
/// Entity (process, thread, cpu, rank, metric) of a run; 0 = none. An entity that orders rows is their lane.
using EntityId = Id<struct EntityTag, uint32_t>;
/// Interned name of a run; 0 = the empty name.
using NameId = Id<struct NameTag, uint32_t>;

}  // namespace stepscope

template <typename Tag, typename Int>
struct std::hash<stepscope::Id<Tag, Int>> {
  size_t operator()(stepscope::Id<Tag, Int> id) const noexcept { return std::hash<Int>{}(id.value); }
};
