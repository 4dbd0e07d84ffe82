// SPDX-License-Identifier: Apache-2.0
// Access: who is calling, and which jobs are theirs. Callers see and act on jobs of their own uid; root and the daemon's own
// user on all. A job of somebody else reads as one that does not exist.
//
// Thread rule: any thread.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/jobs/job_table.h"

namespace stepscope {

struct Caller {
  uint32_t uid = 0;
  bool everything = false;  ///< root or the daemon's own user
  bool Owns(uint32_t job_uid) const { return everything || uid == job_uid; }
};

class Access {
 public:
  using IdentifyPeer = std::function<absl::StatusOr<uint32_t>(const std::string& peer)>;
  /// `identify` empty = PeerUid().
  Access(const JobTable* jobs, uint32_t own_uid, std::string proc, IdentifyPeer identify);
  void SetServerPort(uint16_t port) { server_port_ = port; }

  absl::StatusOr<Caller> Identify(const std::string& peer) const;
  /// The caller's job of that name, id or full id, with "@RUN" behind it one of its runs; "" and "last" = the newest job.
  /// A job speaks of its newest run, and `runs` lists all; a run that was named speaks of itself alone.
  absl::StatusOr<JobSnapshot> Resolve(const Caller& caller, const std::string& ref) const;
  /// Authorise and find: Resolve for whoever is behind `peer`.
  absl::StatusOr<JobSnapshot> JobOf(const std::string& peer, const std::string& ref) const;
  /// Newest run of each of the caller's jobs, newest first.
  std::vector<JobSnapshot> List(const Caller& caller) const;
  /// Real uid of a live process. NOT_FOUND when there is none.
  absl::StatusOr<uint32_t> UidOfProcess(Pid pid) const;

 private:
  std::optional<JobSnapshot> NamedRun(const Caller& caller, std::string_view ref) const;

  const JobTable* jobs_;
  const uint32_t own_uid_;
  const std::string proc_;
  const IdentifyPeer identify_;
  std::atomic<uint16_t> server_port_ = 0;
};

}  // namespace stepscope
