// SPDX-License-Identifier: Apache-2.0
// What the cgroup paths of a process (/proc/PID/cgroup: v1, v2 or both) say about where it runs: pod, container, Slurm step,
// systemd unit. Read by the JobTable, because the kernel wrote these paths and the environment is the user's own word.
//
//   tenant  host                    no container on the way
//           POD                     any container of one pod
//           CONTAINER               a container outside pods
//           CONTAINER/POD, …        containers inside a container ("Kubernetes in Docker"): each level, up to the first pod
//
// A process may create groups below its own, so an outer level is never given up for an inner one. Paths may begin with "..":
// the daemon then lives in a cgroup namespace of its own. Any bytes are tolerated; what is no known layout is the host.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "daemon/jobs/job_table.h"

namespace stepscope {

struct CgroupPlace {
  std::string tenant = "host";
  std::string pod;             ///< uid as Kubernetes writes it, with dashes; or a Podman pod's id; empty = in no pod
  bool in_kubernetes = false;  ///< the pod is one of Kubernetes
  std::string container;       ///< id of the innermost container; empty = in none
  std::string runtime;         ///< docker, containerd, cri-o, podman; empty where the path does not tell
  std::string slurm_job;
  std::string slurm_step;    ///< "0", "batch", "extern", …
  std::string systemd_unit;  ///< innermost service or scope
  friend bool operator==(const CgroupPlace&, const CgroupPlace&) = default;
};

/// `text` is the whole file.
CgroupPlace ParseCgroups(std::string_view text);

/// nullopt when the process is gone or exiting: the kernel may then show it in the root group.
std::optional<CgroupPlace> ReadCgroups(ProcessKey process, const std::string& proc);

}  // namespace stepscope
