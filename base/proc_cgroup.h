// SPDX-License-Identifier: Apache-2.0
// /proc/PID/cgroup, taken apart in one place (cgroups(7)): "N:controllers:path" for each v1 hierarchy, "0::path" for v2.
#pragma once

#include <string_view>
#include <vector>

namespace stepscope {

struct ProcCgroup {
  std::string_view controllers;  ///< "cpu,cpuacct", "name=systemd"; empty: the hierarchy of v2
  std::string_view path;         ///< from the hierarchy's top or the reader's cgroup namespace; may hold any byte but a newline
};

/// `text` is the whole file; the answer points into it. A line that is none of these, or has no path, is left out.
std::vector<ProcCgroup> ParseProcCgroup(std::string_view text);

}  // namespace stepscope
