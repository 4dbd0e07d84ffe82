// SPDX-License-Identifier: Apache-2.0
// What procfs says about a process among others: its ancestors, its environment, and whether it still lives. `proc` is
// the root of procfs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/jobs/job_table.h"

namespace stepscope {

/// The process itself, then its parents up to (not including) pid 1; stops early at one that vanished. One that is gone has none.
std::vector<ProcessKey> Ancestry(ProcessKey process, const std::string& proc);

/// True while this very process (not a later one with the same pid) exists and is no zombie.
bool IsAlive(ProcessKey process, const std::string& proc);

/// Whether the environment it was started with has the variable; false where it cannot be read.
bool HasVariable(Pid pid, std::string_view name, const std::string& proc);

}  // namespace stepscope
