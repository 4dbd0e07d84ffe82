// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/cgroup_pressure.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "base/proc_stat.h"

namespace stepscope {
namespace {

// A launcher moves its processes between cgroups when they start; reading /proc/PID/cgroup of hundreds of processes at each
// tick for that would cost more than everything else here.
constexpr int kSamplesPerReread = 10;

constexpr double kNsPerMicrosecond = 1e3;

struct Resource {
  const char* node_file;
  const char* group_file;
  const char* some;
  const char* full;
};
constexpr Resource kResources[] = {
    {"/proc/pressure/cpu", "cpu.pressure", "psi.cpu_some_ns_total", "psi.cpu_full_ns_total"},
    {"/proc/pressure/io", "io.pressure", "psi.io_some_ns_total", "psi.io_full_ns_total"},
    {"/proc/pressure/memory", "memory.pressure", "psi.memory_some_ns_total", "psi.memory_full_ns_total"},
};

/// The number behind the first `key` that begins a word.
std::optional<double> NumberAfter(std::string_view text, std::string_view key) {
  for (size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    if (at > 0 && text[at - 1] != '\n' && text[at - 1] != ' ') continue;
    uint64_t number = 0;
    const char* begin = text.data() + at + key.size();
    const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
    if (error == std::errc() && end != begin) return static_cast<double>(number);
  }
  return std::nullopt;
}

/// "some avg10=… total=123\nfull avg10=… total=45": microseconds since boot, or since the cgroup was made.
void AddPressure(const std::string& path, const Resource& resource, const MetricValue& of, MetricSink* sink) {
  const std::string text = ReadProcFile(path);
  const size_t full_at = text.find("full ");
  const std::string_view some = std::string_view(text).substr(0, full_at);
  const std::string_view full = full_at == std::string::npos ? std::string_view() : std::string_view(text).substr(full_at);
  const auto add = [&](const char* name, std::string_view line) {
    const std::optional<double> total_us = NumberAfter(line, "total=");
    if (!total_us) return;
    MetricValue value = of;
    value.name = name;
    value.value = *total_us * kNsPerMicrosecond;
    sink->Add(value);
  };
  add(resource.some, some);
  add(resource.full, full);
}

void AddThrottling(const std::string& directory, bool is_own, const MetricValue& of, MetricSink* sink) {
  const std::string text = ReadProcFile(directory + "/cpu.stat");
  const std::optional<double> periods = NumberAfter(text, "nr_periods ");
  const std::optional<double> throttled_periods = NumberAfter(text, "nr_throttled ");
  std::optional<double> throttled_ns = NumberAfter(text, "throttled_time ");
  if (const auto us = NumberAfter(text, "throttled_usec ")) throttled_ns = *us * kNsPerMicrosecond;
  // Absent: the cgroup is gone, or the cpu controller is not on at this level.
  if (!periods || !throttled_periods || !throttled_ns) return;
  if (*periods == 0 && !is_own) return;
  const auto add = [&](const char* name, double number) {
    MetricValue value = of;
    value.name = name;
    value.value = number;
    sink->Add(value);
  };
  add("cgroup.throttled_ns_total", *throttled_ns);
  add("cgroup.throttled_periods_total", *throttled_periods);
  add("cgroup.periods_total", *periods);
}

/// nullopt when the process is gone: its pid may be another's by now.
std::optional<CgroupPaths> PathsOf(const ProcessKey& process, const std::string& root) {
  CgroupPaths paths = ReadCgroupPaths(root, process.pid);
  const std::optional<ProcStat> stat = ReadProcStat(process.pid, root + "/proc");
  if (!stat || stat->start_ticks != process.start_ticks) return std::nullopt;
  return paths;
}

}  // namespace

CgroupPressure::CgroupPressure(Options options) : options_(std::move(options)), mounts_(ReadCgroupMounts(options_.root)) {
  SetState("idle");
}

void CgroupPressure::Start() {
  mounts_ = ReadCgroupMounts(options_.root);
  samples_until_reread_ = 0;
  outside_ = 0;
  SetState("on");
}

void CgroupPressure::Stop() {
  paths_.clear();
  cpu_groups_.clear();
  pressure_groups_.clear();
  SetState("idle");
}

void CgroupPressure::SetState(const char* when_readable) {
  CollectorState state{"cgroup", "full", when_readable, "", "", {}};
  const bool has_psi = !ReadProcFile(options_.root + kResources[0].node_file).empty();
  const bool has_groups = mounts_.v2 || mounts_.v1_cpu;
  if (!has_groups) {
    state.reason = "no cgroup hierarchy with a cpu controller is mounted: no throttling";
    state.next_step = "mount the host's /sys/fs/cgroup where the daemon runs";
  }
  if (!has_psi) {
    state.reason += fmt::format("{}{}/proc/pressure cannot be read: no pressure", has_groups ? "" : "; ", options_.root);
    if (state.next_step.empty()) state.next_step = "boot with psi=1 on a kernel with CONFIG_PSI";
  }
  if (!has_groups && !has_psi) {
    state.state = "unavailable";
    state.level = "none";
  }
  if (outside_ > 0) {
    state.reason =
        fmt::format("the cgroups of {} processes lie outside this daemon's cgroup namespace: no throttling of them", outside_);
    state.next_step = "run the daemon in the host's cgroup namespace";
  }
  if (mounts_.v1_cpu && mounts_.v2) state.numbers["hierarchy"] = "hybrid";
  if (mounts_.v1_cpu && !mounts_.v2) state.numbers["hierarchy"] = "v1";
  if (!mounts_.v1_cpu && mounts_.v2) state.numbers["hierarchy"] = "v2";
  state_.Set(std::move(state));
}

void CgroupPressure::FindPaths(std::span<const ProcessKey> processes) {
  const bool reread = samples_until_reread_-- <= 0;
  if (reread) samples_until_reread_ = kSamplesPerReread - 1;
  std::map<ProcessKey, CgroupPaths> paths;
  for (const ProcessKey& process : processes) {
    const auto known = paths_.find(process);
    const bool is_known = known != paths_.end();
    std::optional<CgroupPaths> now;
    if (!is_known || reread) now = PathsOf(process, options_.root);
    if (!now && is_known) now = known->second;  // its cgroup outlives it
    if (now) paths[process] = *std::move(now);
  }
  paths_ = std::move(paths);
}

void CgroupPressure::FindGroups() {
  cpu_groups_.clear();
  pressure_groups_.clear();
  int64_t outside = 0;
  for (const auto& [process, at] : paths_) {
    const std::optional<CgroupMount>& cpu_mount = mounts_.v1_cpu ? mounts_.v1_cpu : mounts_.v2;
    const std::optional<std::string>& cpu_path = mounts_.v1_cpu ? at.v1_cpu : at.v2;
    if (cpu_mount && cpu_path) {
      if (!CgroupDirectory(*cpu_mount, *cpu_path)) ++outside;
      for (const std::string& level : CgroupAndParents(*cpu_mount, *cpu_path)) {
        AddMember({*cpu_mount, level, level == *cpu_path}, process, &cpu_groups_);
      }
    }
    // The top cgroup's pressure is the node's, which has a file of its own.
    if (mounts_.v2 && at.v2 && !CgroupAndParents(*mounts_.v2, *at.v2).empty()) {
      AddMember({*mounts_.v2, *at.v2, true}, process, &pressure_groups_);
    }
  }
  if (std::exchange(outside_, outside) != outside) SetState("on");
}

void CgroupPressure::AddMember(const Level& level, ProcessKey process, Groups* groups) {
  Group& group = (*groups)[level.path];
  group.directory = CgroupDirectory(level.mount, level.path).value_or("");
  group.is_own = group.is_own || level.is_own;
  group.members.push_back(process);
}

void CgroupPressure::Sample(std::span<const ProcessKey> processes, MetricSink* sink) {
  FindPaths(processes);
  FindGroups();
  for (const auto& [path, group] : cpu_groups_) {
    AddThrottling(group.directory, group.is_own, {.instance = path, .members = group.members}, sink);
  }
  for (const Resource& resource : kResources) {
    AddPressure(options_.root + resource.node_file, resource, {}, sink);
    for (const auto& [path, group] : pressure_groups_) {
      AddPressure(fmt::format("{}/{}", group.directory, resource.group_file), resource,
                  {.instance = path, .members = group.members}, sink);
    }
  }
}

}  // namespace stepscope
