// SPDX-License-Identifier: Apache-2.0
#include "daemon/jobs/cgroup_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/proc_cgroup.h"
#include "base/proc_stat.h"

namespace stepscope {
namespace {

constexpr size_t kContainerIdChars = 64;

/// Names of the systemd scope (or cgroupfs directory) of a container: the prefix before its id. The monitor processes of Podman
/// and CRI-O ("libpod-conmon-ID") do not match: they run on the host.
struct RuntimePrefix {
  std::string_view prefix;
  std::string_view runtime;
};
constexpr std::array<RuntimePrefix, 7> kPrefixes = {{
    {"docker-", "docker"},
    {"cri-containerd-", "containerd"},
    {"containerd-", "containerd"},
    {"nerdctl-", "containerd"},
    {"crio-", "cri-o"},
    {"libpod-payload-", "podman"},
    {"libpod-", "podman"},
}};

/// Directories whose children are named by bare container ids.
constexpr std::array<RuntimePrefix, 3> kParents = {{
    {"docker", "docker"},
    {"cri-containerd", "containerd"},
    {"libpod_parent", "podman"},
}};

bool IsHex(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}
bool IsNumber(std::string_view text) { return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos; }
bool IsContainerId(std::string_view text) { return text.size() == kContainerIdChars && IsHex(text); }

/// "…SUFFIX" → "…"; unchanged without it.
std::string_view Without(std::string_view text, std::string_view suffix) {
  if (text.ends_with(suffix)) text.remove_suffix(suffix.size());
  return text;
}

/// A pod's uid: a UUID (systemd units write '_' for '-'), or 32 hex digits for a static pod. Empty = it is none.
std::string PodUid(std::string_view text) {
  constexpr size_t kUuidChars = 36, kStaticChars = 32;
  std::string uid(text);
  std::replace(uid.begin(), uid.end(), '_', '-');
  if (uid.size() == kStaticChars && IsHex(uid)) return uid;
  std::string digits = uid;
  std::erase(digits, '-');
  const bool is_uuid = uid.size() == kUuidChars && digits.size() == kUuidChars - 4 && IsHex(digits);
  return is_uuid ? uid : "";
}

/// "podUID", "kubepods-burstable-podUID.slice", "kubelet-kubepods-podUID.slice".
std::string KubernetesPod(std::string_view part) {
  if (part.starts_with("pod")) return PodUid(part.substr(3));
  const size_t at = part.rfind("-pod");
  if (at == std::string_view::npos || !part.ends_with(".slice")) return "";
  if (!part.substr(0, at).starts_with("kubepods") && part.find("-kubepods") >= at) return "";
  return PodUid(Without(part.substr(at + 4), ".slice"));
}

/// "machine-libpod_pod_ID.slice", "user-libpod_pod_ID.slice".
std::string PodmanPod(std::string_view part) {
  constexpr std::string_view kName = "libpod_pod_";
  const size_t at = part.find(kName);
  if (at == std::string_view::npos) return "";
  const std::string_view id = Without(part.substr(at + kName.size()), ".slice");
  return IsContainerId(id) ? std::string(id) : "";
}

struct Container {
  std::string_view id;
  std::string_view runtime;
};

std::optional<Container> ContainerOf(std::string_view part, std::string_view parent) {
  if (IsContainerId(part)) {
    for (const RuntimePrefix& known : kParents) {
      if (parent == known.prefix) return Container{part, known.runtime};
    }
    return Container{part, ""};
  }
  for (const RuntimePrefix& known : kPrefixes) {
    if (!part.starts_with(known.prefix)) continue;
    const std::string_view id = Without(part.substr(known.prefix.size()), ".scope");
    if (IsContainerId(id)) return Container{id, known.runtime};
  }
  return std::nullopt;
}

/// Runc without systemd names a group "SLICE:PREFIX:ID": its parts are levels like any other.
std::vector<std::string_view> PartsOf(std::string_view path) {
  path = Without(path, " (deleted)");
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find_first_of("/:"));
    path.remove_prefix(std::min(part.size() + 1, path.size()));
    if (!part.empty() && part != "..") parts.push_back(part);
  }
  return parts;
}

void EnterPod(std::string uid, bool in_kubernetes, CgroupPlace& place, std::vector<std::string>& tenant) {
  place.in_kubernetes = in_kubernetes;
  tenant.push_back(uid);
  place.pod = std::move(uid);
}

/// Pod and container of one path.
CgroupPlace ContainersOn(const std::vector<std::string_view>& parts) {
  CgroupPlace place;
  std::vector<std::string> tenant;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (place.pod.empty()) {
      if (std::string uid = KubernetesPod(parts[i]); !uid.empty()) EnterPod(std::move(uid), true, place, tenant);
      if (std::string id = PodmanPod(parts[i]); !id.empty()) EnterPod(std::move(id), false, place, tenant);
    }
    const auto container = ContainerOf(parts[i], i == 0 ? std::string_view() : parts[i - 1]);
    if (!container) continue;
    place.container = container->id;
    place.runtime = container->runtime;
    if (place.pod.empty()) tenant.push_back(place.container);
  }
  if (!tenant.empty()) place.tenant = fmt::format("{}", fmt::join(tenant, "/"));
  return place;
}

bool IsSlurmRoot(std::string_view part) {
  return part == "slurm" || part.starts_with("slurm_") || part == "slurmstepd.scope" || part.ends_with("_slurmstepd.scope");
}

/// v1: slurm[_NODE]/uid_U/job_J/step_S; v2: [NODE_]slurmstepd.scope/job_J/step_S.
void TakeSlurm(const std::vector<std::string_view>& parts, CgroupPlace& place) {
  if (!place.slurm_job.empty()) return;
  for (size_t at = 0; at < parts.size(); ++at) {
    if (!IsSlurmRoot(parts[at])) continue;
    size_t next = at + 1;
    if (next < parts.size() && parts[next].starts_with("uid_")) ++next;
    if (next >= parts.size() || !parts[next].starts_with("job_") || !IsNumber(parts[next].substr(4))) continue;
    place.slurm_job = parts[next].substr(4);
    ++next;
    if (next < parts.size() && parts[next].starts_with("step_")) place.slurm_step = parts[next].substr(5);
    return;
  }
}

void TakeUnit(const std::vector<std::string_view>& parts, CgroupPlace& place) {
  for (const std::string_view part : parts) {
    if (part.ends_with(".service") || part.ends_with(".scope")) place.systemd_unit = part;
  }
}

/// Controllers a runtime does not use stay in the host's group: the hierarchy that says most is right.
bool SaysMore(const CgroupPlace& a, const CgroupPlace& b) {
  if (a.pod.empty() != b.pod.empty()) return b.pod.empty();
  if (a.tenant == "host" || b.tenant == "host") return b.tenant == "host" && a.tenant != "host";
  return std::ranges::count(a.tenant, '/') > std::ranges::count(b.tenant, '/');
}

}  // namespace

CgroupPlace ParseCgroups(std::string_view text) {
  CgroupPlace best;
  CgroupPlace host;  // what does not depend on containers
  for (const ProcCgroup& group : ParseProcCgroup(text)) {
    const std::vector<std::string_view> parts = PartsOf(group.path);
    TakeSlurm(parts, host);
    if (group.controllers.empty() || group.controllers == "name=systemd") TakeUnit(parts, host);
    if (CgroupPlace place = ContainersOn(parts); SaysMore(place, best)) best = std::move(place);
  }
  best.slurm_job = std::move(host.slurm_job);
  best.slurm_step = std::move(host.slurm_step);
  best.systemd_unit = std::move(host.systemd_unit);
  return best;
}

// An empty file under a live process is a machine without cgroups: everything is the host.
std::optional<CgroupPlace> ReadCgroups(ProcessKey process, const std::string& proc) {
  const std::string text = ReadProcFile(fmt::format("{}/{}/cgroup", proc, process.pid.value));
  const auto stat = ReadProcStat(process.pid, proc);
  if (!stat || stat->start_ticks != process.start_ticks || stat->is_exiting) return std::nullopt;
  return ParseCgroups(text);
}

}  // namespace stepscope
