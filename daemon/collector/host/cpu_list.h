// SPDX-License-Identifier: Apache-2.0
// Lists of CPUs as sysfs writes them ("0-3,8,10-11"): which are online, which belong to a NUMA node.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stepscope {

/// Ascending as written. Stops at the first thing that is no list; an empty list is an ordinary one (a node without CPUs).
std::vector<int> ParseCpuList(std::string_view text);

/// CPUs that are online now, from sysfs below `root`; those of this process's machine if sysfs is not there.
std::vector<int> OnlineCpus(const std::string& root);

}  // namespace stepscope
