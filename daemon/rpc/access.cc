// SPDX-License-Identifier: Apache-2.0
#include "daemon/rpc/access.h"

#include <fmt/format.h>

#include <charconv>
#include <set>

#include "base/proc_stat.h"
#include "base/status.h"
#include "daemon/rpc/peer_uid.h"

namespace stepscope {
namespace {

bool IsCalled(const JobSnapshot& job, std::string_view ref) { return job.name == ref || job.id == ref || job.job == ref; }

}  // namespace

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
    if (IsCalled(job, ref)) return job;
  }
  if (auto run = NamedRun(caller, ref)) return *std::move(run);
  std::string known;
  for (size_t i = 0; i < jobs.size() && i < 8; ++i) known += (i == 0 ? "" : ", ") + jobs[i].name;
  return absl::NotFoundError(fmt::format("no job \"{}\" {}; there is: {}", ref.substr(0, 256), whose, known));
}

absl::StatusOr<JobSnapshot> Access::JobOf(const std::string& peer, const std::string& ref) const {
  STEPSCOPE_ASSIGN_OR_RETURN(const Caller caller, Identify(peer));
  return Resolve(caller, ref);
}

/// "JOB@RUN", "@RUN".
std::optional<JobSnapshot> Access::NamedRun(const Caller& caller, std::string_view ref) const {
  const size_t at = ref.rfind('@');
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view digits = ref.substr(at + 1);
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  auto run = jobs_->ByRun(RunId{number});
  if (!run.ok() || !caller.Owns(run->uid) || (at > 0 && !IsCalled(*run, ref.substr(0, at)))) return std::nullopt;
  run->runs = {run->run};
  return *std::move(run);
}

absl::StatusOr<uint32_t> Access::UidOfProcess(Pid pid) const {
  if (const auto uid = ReadProcUid(pid, proc_)) return *uid;
  return absl::NotFoundError(fmt::format("no process {} on this node; give the pid as the host sees it", pid.value));
}

}  // namespace stepscope
