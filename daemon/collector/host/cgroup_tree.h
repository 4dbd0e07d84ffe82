// SPDX-License-Identifier: Apache-2.0
// Where the cgroups of processes lie in the file system: v1, v2, and both at once (hybrid).
//
//   /proc/self/mountinfo   which hierarchy is mounted where, and which part of it ("root") that mount shows
//   /proc/PID/cgroup       a path per hierarchy, which counts from the hierarchy's top, or from the reader's cgroup namespace
//   directory              mount point + (path - root)
//
// `root` is a seam: it stands in front of /proc and of every mount point; empty = the machine itself.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace stepscope {

/// One mounted hierarchy.
struct CgroupMount {
  std::string point;  ///< directory it is mounted on, with the seam's root in front
  std::string root;   ///< cgroup that the directory shows
};

struct CgroupMounts {
  std::optional<CgroupMount> v2;
  std::optional<CgroupMount> v1_cpu;  ///< the hierarchy of the v1 cpu controller: then cpu.stat is there and not in v2
};

CgroupMounts ReadCgroupMounts(const std::string& root);

/// Paths of a process's cgroups as /proc/PID/cgroup tells them; nullopt where it names none or the process is gone.
struct CgroupPaths {
  std::optional<std::string> v2;
  std::optional<std::string> v1_cpu;
};
CgroupPaths ReadCgroupPaths(const std::string& root, Pid pid);

/// Directory of the cgroup `path`; nullopt if the mount does not show it (it lies outside this cgroup namespace).
std::optional<std::string> CgroupDirectory(const CgroupMount& mount, std::string_view path);

/// The cgroup itself and those it lies in, without the top of what is mounted: "/a/b" → "/a/b", "/a".
std::vector<std::string> CgroupAndParents(const CgroupMount& mount, std::string_view path);

}  // namespace stepscope
