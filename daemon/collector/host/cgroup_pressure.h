// SPDX-License-Identifier: Apache-2.0
// CgroupPressure: how long the cgroups of tracked processes were kept off the CPU by their quota, and how long work in them, and
// on the node, stood still for want of CPU, disk or memory (PSI).
//   cgroup.throttled_ns_total, cgroup.throttled_periods_total, cgroup.periods_total     as cpu.stat has them; v1 and v2
//   psi.{cpu,io,memory}_{some,full}_ns_total       instance "": the node; a cgroup's path: its own files (v2 only)
// The instance of a cgroup is its path. A quota may sit on any level, so the levels above a process's cgroup are read too and
// said as soon as one of them has had a quota period. A cgroup's values are written in the runs of its processes only.
// Cgroups and processes that vanish are ordinary.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/collector/host/cgroup_tree.h"
#include "daemon/collector/host/metric_source.h"
#include "daemon/collector/host/state_box.h"

namespace stepscope {

class CgroupPressure final : public MetricSource {
 public:
  struct Options {
    std::string root;  ///< in front of /proc and of mount points; empty = the machine itself
    std::chrono::milliseconds period{500};
  };
  explicit CgroupPressure(Options options);

  CollectorState State() const override { return state_.Get(); }
  std::chrono::milliseconds period() const override { return options_.period; }
  void Start() override;
  void Sample(std::span<const ProcessKey> processes, MetricSink* sink) override;
  void Stop() override;

 private:
  struct Group {
    std::string directory;
    bool is_own = false;  ///< a process is in it, not only in one below
    std::vector<ProcessKey> members;
  };
  using Groups = std::map<std::string, Group>;  ///< by path

  struct Level {
    const CgroupMount& mount;
    const std::string& path;
    bool is_own;
  };

  void FindPaths(std::span<const ProcessKey> processes);
  void FindGroups();
  static void AddMember(const Level& level, ProcessKey process, Groups* groups);
  void SetState(const char* when_readable);

  const Options options_;
  CgroupMounts mounts_;
  std::map<ProcessKey, CgroupPaths> paths_;
  int samples_until_reread_ = 0;
  int64_t outside_ = 0;     ///< processes whose cgroup the mount does not show
  Groups cpu_groups_;       ///< with cpu.stat: v1's if there is a v1 cpu controller
  Groups pressure_groups_;  ///< with *.pressure: v2's
  StateBox state_;
};

}  // namespace stepscope
