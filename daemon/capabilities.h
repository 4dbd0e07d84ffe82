// SPDX-License-Identifier: Apache-2.0
// The daemon's capabilities: which it still needs once it runs, giving up the rest, and what is left, for `stepscope doctor`.
//
// Capabilities belong to threads, and the daemon has many by the time it knows what it needs: DropTo reaches every one of them or
// reports an error.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stepscope {

/// Names as the kernel gives them: cap_bpf, cap_perfmon, …
using CapabilitySet = std::set<std::string>;

struct CapabilityNeeds {
  uid_t uid = 0;                 ///< the daemon's effective user
  bool kernel_programs = false;  ///< scheduling at level full: programs are attached again for every job
  bool perf_of_others = false;   ///< perf records of other users' threads
  bool other_users = false;      ///< it serves all users of the node: reads their processes in /proc
  bool foreign_folders = false;  ///< it writes into a folder of another user
};

/// The part of `held` to keep. Root without CAP_SYS_PTRACE keeps all: the kernel lets it look into a process only if it holds
/// every capability that process has, and programs of root (in a container: all of them) have as many as it was started with.
CapabilitySet ToKeep(const CapabilityNeeds& needs, const CapabilitySet& held);

/// Effective set of the calling thread.
absl::StatusOr<CapabilitySet> EffectiveCapabilities();

/// Leaves every thread of this process with `keep` as permitted and effective set, and nothing a child would inherit.
absl::Status DropTo(const CapabilitySet& keep);

/// "cap_bpf, cap_perfmon"; "none".
std::string CapabilityText(const CapabilitySet& set);

}  // namespace stepscope
