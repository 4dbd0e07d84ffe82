// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/cgroup_tree.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/proc_cgroup.h"
#include "base/proc_stat.h"

namespace stepscope {
namespace {

constexpr size_t kMostMountBytes = 4 << 20;  // a node with many pods has thousands of mounts

/// Takes what stands before `separator`, and the separator.
std::string_view Take(std::string_view& text, char separator) {
  const std::string_view part = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return part;
}

bool HasWord(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    if (Take(list, ',') == word) return true;
  }
  return false;
}

/// mountinfo writes blanks and the like as \040.
std::string Unescape(std::string_view text) {
  std::string plain;
  const auto is_octal = [](char c) { return c >= '0' && c <= '7'; };
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '\\' && i + 3 < text.size() && std::all_of(&text[i + 1], &text[i + 1] + 3, is_octal);
    if (!is_escape) {
      plain += text[i];
      continue;
    }
    plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
    i += 3;
  }
  return plain;
}

/// In a container the host's hierarchy may be mounted beside the container's own: its root climbs ("/../.."), or is shorter.
bool ShowsMore(const CgroupMount& mount, const std::optional<CgroupMount>& other) {
  if (!other) return true;
  const auto climbs = [](std::string_view path) {
    size_t ups = 0;
    while (path.starts_with("/..")) {
      path.remove_prefix(3);
      ++ups;
    }
    return ups;
  };
  if (climbs(mount.root) != climbs(other->root)) return climbs(mount.root) > climbs(other->root);
  return mount.root.size() < other->root.size();
}

void AddMount(std::string_view line, const std::string& root, CgroupMounts* mounts) {
  const size_t dash = line.find(" - ");  // optional fields end there
  if (dash == std::string_view::npos) return;
  std::string_view behind = line.substr(dash + 3);
  const std::string_view type = Take(behind, ' ');
  if (type != "cgroup" && type != "cgroup2") return;
  Take(behind, ' ');
  const std::string_view options = behind;
  for (int field = 0; field < 3; ++field) Take(line, ' ');
  CgroupMount mount;
  mount.root = Unescape(Take(line, ' '));
  mount.point = root + Unescape(Take(line, ' '));
  if (type == "cgroup2" && ShowsMore(mount, mounts->v2)) {
    mounts->v2 = mount;
  } else if (type == "cgroup" && HasWord(options, "cpu") && ShowsMore(mount, mounts->v1_cpu)) {
    mounts->v1_cpu = mount;
  }
}

/// `path` below the mount's root: "" for the root itself; nullopt if it is not below.
std::optional<std::string_view> Below(const CgroupMount& mount, std::string_view path) {
  const std::string_view top = mount.root == "/" ? std::string_view() : std::string_view(mount.root);
  if (!path.starts_with(top)) return std::nullopt;
  path.remove_prefix(top.size());
  if (path == "/") path = {};
  if (!path.empty() && path[0] != '/') return std::nullopt;
  const bool climbs = path.starts_with("/../") || path == "/..";
  if (climbs) return std::nullopt;
  return path;
}

}  // namespace

CgroupMounts ReadCgroupMounts(const std::string& root) {
  const std::string text = ReadProcFile(root + "/proc/self/mountinfo", kMostMountBytes);
  CgroupMounts mounts;
  std::string_view rest = text;
  while (!rest.empty()) AddMount(Take(rest, '\n'), root, &mounts);
  return mounts;
}

CgroupPaths ReadCgroupPaths(const std::string& root, Pid pid) {
  const std::string text = ReadProcFile(fmt::format("{}/proc/{}/cgroup", root, pid.value));
  CgroupPaths paths;
  for (const ProcCgroup& group : ParseProcCgroup(text)) {
    if (group.controllers.empty()) paths.v2 = group.path;
    if (HasWord(group.controllers, "cpu")) paths.v1_cpu = group.path;
  }
  return paths;
}

std::optional<std::string> CgroupDirectory(const CgroupMount& mount, std::string_view path) {
  const std::optional<std::string_view> below = Below(mount, path);
  if (!below) return std::nullopt;
  return mount.point + std::string(*below);
}

std::vector<std::string> CgroupAndParents(const CgroupMount& mount, std::string_view path) {
  std::vector<std::string> all;
  for (auto below = Below(mount, path); below && !below->empty(); below = Below(mount, path)) {
    all.emplace_back(path);
    path = path.substr(0, path.rfind('/'));
    if (path.empty()) path = "/";
  }
  return all;
}

}  // namespace stepscope
