// SPDX-License-Identifier: Apache-2.0
#include "daemon/rpc/access.h"

#include <fmt/format.h>

#include <fstream>
#include <set>

#include "base/status.h"
#include "daemon/rpc/peer_uid.h"

namespace stepscope {

Access::Access(const JobTable* jobs, uint32_t own_uid, std::string proc, IdentifyPeer identify)
    : jobs_(jobs), own_uid_(own_uid), proc_(std::move(proc)), identify_(std::move(identify)) {}

absl::StatusOr<Caller> Access::Identify(const std::string& peer) const {
  STEPSCOPE_ASSIGN_OR_RETURN(const uint32_t uid, identify_ ? identify_(peer) : PeerUid(peer, server_port_, own_uid_, proc_));
  return Caller{uid, uid == 0 || uid == own_uid_};
}

std::vector<JobSnapshot> Access::List(const Caller& caller) const {
  std::vector<JobSnapshot> jobs;
  std::set<std::pair<std::string, std::string>> seen;
  for (JobSnapshot& job : jobs_->List()) {
    if (!caller.Owns(job.uid) || !seen.emplace(job.tenant, job.job).second) continue;
    jobs.push_back(std::move(job));
  }
  return jobs;
}

absl::StatusOr<JobSnapshot> Access::Resolve(const Caller& caller, const std::string& ref) const {
  const std::vector<JobSnapshot> jobs = List(caller);
  const std::string whose = caller.everything ? "on this node" : fmt::format("of uid {} on this node", caller.uid);
  if (jobs.empty()) return absl::NotFoundError(fmt::format("no job {} yet; start one with `stepscope run -- CMD`", whose));
  if (ref.empty() || ref == "last") return jobs.front();
  for (const JobSnapshot& job : jobs) {
    if (job.name == ref || job.id == ref || job.job == ref) return job;
  }
  std::string known;
  for (size_t i = 0; i < jobs.size() && i < 8; ++i) known += (i == 0 ? "" : ", ") + jobs[i].name;
  return absl::NotFoundError(fmt::format("no job \"{}\" {}; there is: {}", ref.substr(0, 256), whose, known));
}

absl::StatusOr<uint32_t> Access::UidOfProcess(Pid pid) const {
  std::ifstream status(fmt::format("{}/{}/status", proc_, pid.value));
  std::string word;
  while (status >> word) {
    uint32_t uid = 0;
    if (word == "Uid:" && status >> uid) return uid;
  }
  return absl::NotFoundError(fmt::format("no process {} on this node; give the pid as the host sees it", pid.value));
}

}  // namespace stepscope
