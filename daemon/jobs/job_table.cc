// SPDX-License-Identifier: Apache-2.0
#include "daemon/jobs/job_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "base/status.h"
#include "daemon/jobs/cgroup_path.h"
#include "daemon/jobs/job_entry.h"
#include "daemon/jobs/job_ranks.h"
#include "daemon/jobs/process_claim.h"
#include "daemon/jobs/process_tree.h"
#include "storage/keys.h"

namespace stepscope {
namespace {

// Jobs that processes of one user open by recording themselves: so many at once, then so many a second. Each is kept until it is
// deleted.
constexpr double kJobBurst = 1000;
constexpr double kJobsPerSecond = 5;
constexpr int64_t kQuietNs = 60 * kNsPerSecond;
constexpr int64_t kQuietWithLauncherNs = 600 * kNsPerSecond;

/// What to tell the hooks once the mutex is free.
struct Orders {
  std::vector<std::pair<RunId, ProcessKey>> track;
  std::vector<RunId> untrack;
  std::vector<RunId> ended;
};

}  // namespace

const char* JobStateName(JobState state) {
  constexpr const char* kNames[] = {"running", "quiet", "ended", "uploading", "done", "failed"};
  return kNames[static_cast<int>(state)];
}

struct JobTable::Impl {
  Store* store;
  const Clock* clock;
  std::string boot_id;
  std::string hostname;
  Hooks hooks;
  std::string proc;

  mutable std::mutex mu;
  std::map<uint32_t, JobEntry> entries;  // by run, every run the store knows
  uint32_t next_run = 1;
  struct Allowance {
    double jobs = kJobBurst;
    NodeTime since;
  };
  std::map<uint32_t, Allowance> allowances;  // by uid

  absl::Status SpendJob(uint32_t uid);
  JobEntry* Find(RunId run) {
    const auto it = entries.find(run.value);
    return it == entries.end() ? nullptr : &it->second;
  }
  JobEntry* FindRunning(const std::string& job_key) {
    for (auto& [run, entry] : entries)
      if (!entry.Finished() && JobKeyOf(entry.snapshot) == job_key) return &entry;
    return nullptr;
  }

  absl::Status Save(const JobEntry& entry);
  bool IsNewestRun(const JobEntry& entry) const;
  ProcessKey SeenWithPid(ProcessKey gone, uint32_t uid) const;
  JobEntry* Knowing(ProcessKey process);
  absl::Status ReadEntries();
  absl::StatusOr<JobEntry*> Open(const StartJobSpec& spec, bool is_limited, Orders* orders);
  void Follow(JobEntry& entry, ProcessKey process, ProcessKey parent);
  void TakeUp(JobEntry& entry, ProcessKey process, Orders* orders);
  void Step(JobEntry& entry, NodeTime now, std::vector<RunId>* ended);
  void MarkEnded(JobEntry& entry, const std::string& reason);
  absl::StatusOr<RunId> RunForSession(ProcessKey process, uint32_t uid, const Facts& facts, Orders* orders);
  void CarryOut(const Orders& orders) const;
};

bool JobTable::Impl::IsNewestRun(const JobEntry& entry) const {
  return std::ranges::none_of(entries, [&](const auto& other) {
    return other.first > entry.snapshot.run.value && JobKeyOf(other.second.snapshot) == JobKeyOf(entry.snapshot);
  });
}

absl::Status JobTable::Impl::Save(const JobEntry& entry) {
  Seal seal;
  // The job's own row speaks for its newest run; the uploader may still finish an older one.
  if (IsNewestRun(entry)) seal.meta.push_back({"job", JobKeyOf(entry.snapshot), EncodeJob(entry)});
  seal.meta.push_back({"run", RunMetaId(entry.snapshot.run), EncodeRun(entry)});
  return store->Commit(seal);
}

/// The running run of that job and attempt, or a new one, of the user's allowance where limited. A later attempt ends the
/// earlier.
absl::StatusOr<JobEntry*> JobTable::Impl::Open(const StartJobSpec& spec, bool is_limited, Orders* orders) {
  JobSnapshot s;
  s.uid = spec.uid;
  s.tenant = spec.tenant.empty() ? "host" : spec.tenant;
  s.kind = spec.kind.empty() ? "run" : spec.kind;
  s.id = spec.id;
  if (s.id.empty() && spec.root) {
    const bool is_known = spec.root->start_ticks != 0;
    s.id = fmt::format("{}-{}", spec.root->pid.value, is_known ? spec.root->start_ticks : clock->Node().ns);
  }
  if (s.id.empty()) return absl::InvalidArgumentError("StartJob: neither an id nor a pid was given; give one of them");
  s.name = spec.name.empty() ? s.id : spec.name;
  s.attempt = spec.attempt;
  s.job = fmt::format("{}.{}.{}", s.uid, s.kind, s.id);
  JobEntry* running = FindRunning(JobKeyOf(s));
  if (running != nullptr && running->snapshot.attempt >= spec.attempt) return running;
  if (is_limited) STEPSCOPE_RETURN_IF_ERROR(SpendJob(s.uid));
  if (running != nullptr) {
    MarkEnded(*running, fmt::format("attempt {} of the job began", spec.attempt));
    STEPSCOPE_RETURN_IF_ERROR(Save(*running));
    orders->untrack.push_back(running->snapshot.run);
    orders->ended.push_back(running->snapshot.run);
  }

  JobEntry entry;
  s.run = RunId{next_run++};
  for (auto& [run, other] : entries) {
    if (JobKeyOf(other.snapshot) != JobKeyOf(s)) continue;
    s.runs.push_back(RunId{run});
    other.snapshot.runs.push_back(s.run);
    if (other.snapshot.attempt == s.attempt && other.snapshot.boot_id == boot_id) entry.reopening = other.reopening + 1;
  }
  s.runs.push_back(s.run);
  s.start_node = clock->Node();
  s.start_wall = clock->Wall();
  s.facts = spec.facts;
  s.command = spec.command;
  s.hostname = hostname;
  s.boot_id = boot_id;
  entry.snapshot = std::move(s);
  auto [it, inserted] = entries.emplace(entry.snapshot.run.value, std::move(entry));
  STEPSCOPE_RETURN_IF_ERROR(Save(it->second));
  return &it->second;
}

void JobTable::Impl::Follow(JobEntry& entry, ProcessKey process, ProcessKey parent) {
  entry.alive.insert(process);
  if (entry.seen.insert(process).second) ++entry.snapshot.processes;
  if (parent.pid.value > 0) entry.parent[process] = parent;
}

/// A process of an earlier daemon's session. Where its launcher is gone, it is what is left to follow.
void JobTable::Impl::TakeUp(JobEntry& entry, ProcessKey process, Orders* orders) {
  const bool has_root = std::ranges::any_of(entry.roots, [this](const ProcessKey& root) { return IsAlive(root, proc); });
  if (!has_root && IsAlive(process, proc)) orders->track.emplace_back(entry.snapshot.run, process);
  Follow(entry, process, {});
  entry.snapshot.state = JobState::kQuiet;
  entry.quiet_since = clock->Node();
}

/// The running job that has this process, alive or just ended; nullptr = none.
JobEntry* JobTable::Impl::Knowing(ProcessKey process) {
  for (auto& [run, entry] : entries) {
    if (!entry.Finished() && entry.seen.contains(process)) return &entry;
  }
  return nullptr;
}

ProcessKey JobTable::Impl::SeenWithPid(ProcessKey gone, uint32_t uid) const {
  for (const auto& [run, entry] : entries) {
    if (entry.Finished() || (entry.snapshot.uid != uid && uid != 0)) continue;
    for (const ProcessKey& seen : entry.seen) {
      if (seen.pid == gone.pid && seen.start_ticks > gone.start_ticks) gone = seen;
    }
  }
  return gone;
}

absl::Status JobTable::Impl::SpendJob(uint32_t uid) {
  Allowance& allowance = allowances[uid];
  const NodeTime now = clock->Node();
  const double passed_s = static_cast<double>(now - allowance.since) / 1e9;
  allowance.jobs = std::min(kJobBurst, allowance.jobs + passed_s * kJobsPerSecond);
  allowance.since = now;
  if (allowance.jobs < 1) return absl::ResourceExhaustedError("one user opens too many jobs; start them below one process");
  allowance.jobs -= 1;
  return absl::OkStatus();
}

absl::StatusOr<RunId> JobTable::Impl::RunForSession(ProcessKey process, uint32_t uid, const Facts& facts, Orders* orders) {
  if (process.start_ticks == 0) process = SeenWithPid(process, uid);
  const std::vector<ProcessKey> chain = Ancestry(process, proc);
  JobEntry* entry = nullptr;
  for (const ProcessKey& ancestor : chain) {
    JobEntry* candidate = ancestor.start_ticks != 0 ? Knowing(ancestor) : nullptr;
    if (candidate == nullptr) continue;
    if (candidate->snapshot.uid == uid || uid == 0) entry = candidate;
    break;
  }
  if (entry == nullptr) {
    const StartJobSpec claim = ClaimOf(chain, uid, facts, proc);
    STEPSCOPE_ASSIGN_OR_RETURN(entry, Open(claim, /*is_limited=*/true, orders));
    const ProcessKey root = claim.root.value_or(process);
    entry->roots.push_back(root);
    Follow(*entry, root, {});
    if (root.start_ticks != 0) orders->track.emplace_back(entry->snapshot.run, root);
  }
  LearnAncestry(*entry, chain);
  Follow(*entry, process, chain.size() > 1 ? chain[1] : ProcessKey{});
  AddRank(*entry, process, RankFromFacts(facts));
  if (const int32_t nodes = NodesFromFacts(facts); nodes > 0) entry->snapshot.facts["launcher.nodes"] = std::to_string(nodes);
  if (entry->snapshot.state == JobState::kQuiet) entry->snapshot.state = JobState::kRunning;
  STEPSCOPE_RETURN_IF_ERROR(Save(*entry));
  return entry->snapshot.run;
}

void JobTable::Impl::CarryOut(const Orders& orders) const {
  for (const RunId run : orders.untrack) {
    if (hooks.untrack) hooks.untrack(run);
  }
  for (const RunId run : orders.ended) {
    if (hooks.ended) hooks.ended(run);
  }
  for (const auto& [run, root] : orders.track) {
    if (hooks.track) hooks.track(run, root);
  }
}

void JobTable::Impl::MarkEnded(JobEntry& entry, const std::string& reason) {
  JobSnapshot& s = entry.snapshot;
  s.state = JobState::kEnded;
  s.state_reason = reason;
  s.end_node = clock->Node();
  s.end_wall = clock->Wall();
  for (RankInfo& rank : s.ranks) rank.alive = false;
  entry.alive.clear();
}

void JobTable::Impl::Step(JobEntry& entry, NodeTime now, std::vector<RunId>* ended) {
  if (entry.Finished()) return;
  std::erase_if(entry.alive, [this](const ProcessKey& p) { return !IsAlive(p, proc); });
  JobSnapshot& s = entry.snapshot;
  bool rank_alive = false;
  for (RankInfo& rank : s.ranks) {
    rank.alive = entry.alive.contains(rank.process);
    rank_alive |= rank.alive;
  }
  const bool any_alive = !entry.alive.empty();
  const bool busy = s.ranks.empty() ? any_alive : rank_alive;
  if (busy) {
    s.state = JobState::kRunning;
    return;
  }
  if (s.state == JobState::kRunning) {
    s.state = JobState::kQuiet;
    entry.quiet_since = now;
    return;
  }
  if (now - entry.quiet_since < (any_alive ? kQuietWithLauncherNs : kQuietNs)) return;
  MarkEnded(entry, "its processes are gone");
  ended->push_back(s.run);
}

JobTable::JobTable(Store* store, const Clock* clock, std::string boot_id, std::string hostname, Hooks hooks, std::string proc)
    : impl_(new Impl{store, clock, std::move(boot_id), std::move(hostname), std::move(hooks), std::move(proc), {}, {}, 1, {}}) {}
JobTable::~JobTable() = default;

absl::Status JobTable::Impl::ReadEntries() {
  std::map<std::string, std::string> jobs;
  STEPSCOPE_RETURN_IF_ERROR(store->ForEachMeta("job", [&](std::string_view id, std::string_view value) {
    jobs.emplace(id, value);
    return true;
  }));
  return store->ForEachMeta("run", [&](std::string_view id, std::string_view value) {
    if (auto entry = DecodeEntry(value, jobs)) {
      const uint32_t run = entry->snapshot.run.value;
      if (id != RunMetaId({run}) || run == 0 || run == UINT32_MAX) return true;  // damaged: its rows are under another key
      next_run = std::max(next_run, run + 1);
      entries.emplace(run, *std::move(entry));
    }
    return true;
  });
}

absl::Status JobTable::Load(const std::vector<std::pair<RunId, ProcessKey>>& unread) {
  Orders orders;
  {
    const std::lock_guard lock(impl_->mu);
    STEPSCOPE_RETURN_IF_ERROR(impl_->ReadEntries());
    for (const auto& [run, process] : unread) {
      JobEntry* entry = impl_->Find(run);
      if (entry != nullptr && !entry->Finished()) impl_->TakeUp(*entry, process, &orders);
    }
    for (auto& [run, entry] : impl_->entries) {
      if (entry.Finished()) {
        if (entry.snapshot.state != JobState::kDone) orders.ended.push_back(RunId{run});
        continue;
      }
      const bool same_boot = entry.snapshot.boot_id == impl_->boot_id;
      const NodeTime until = impl_->hooks.was_open ? impl_->hooks.was_open(entry.snapshot) : impl_->clock->Node();
      for (const ProcessKey& root : entry.roots) {
        if (!same_boot || !IsAlive(root, impl_->proc)) continue;
        impl_->Follow(entry, root, {});
        orders.track.emplace_back(RunId{run}, root);
      }
      if (!entry.alive.empty()) continue;
      impl_->MarkEnded(entry, same_boot ? "it ended while no daemon was running" : "the node went down");
      JobSnapshot& ended = entry.snapshot;
      ended.end_node = std::max(until, ended.start_node);
      if (!same_boot) ended.end_wall.ns = ended.start_wall.ns + (ended.end_node - ended.start_node);
      STEPSCOPE_RETURN_IF_ERROR(impl_->Save(entry));
      orders.ended.push_back(RunId{run});
    }
  }
  impl_->CarryOut(orders);
  return absl::OkStatus();
}

absl::StatusOr<JobSnapshot> JobTable::StartJob(StartJobSpec spec) {
  if (spec.root) {
    const auto place = ReadCgroups(*spec.root, impl_->proc);
    if (!place) {
      return absl::NotFoundError(
          fmt::format("process {} ended just now; start the job again with one that runs", spec.root->pid.value));
    }
    spec.tenant = place->tenant;
  }
  JobSnapshot result;
  Orders orders;
  {
    const std::lock_guard lock(impl_->mu);
    STEPSCOPE_ASSIGN_OR_RETURN(JobEntry * entry, impl_->Open(spec, /*is_limited=*/false, &orders));
    for (const auto& [key, value] : spec.facts) entry->snapshot.facts[key] = value;
    if (spec.root) {
      entry->roots.push_back(*spec.root);
      impl_->Follow(*entry, *spec.root, {});
      orders.track.emplace_back(entry->snapshot.run, *spec.root);
    }
    STEPSCOPE_RETURN_IF_ERROR(impl_->Save(*entry));
    result = entry->snapshot;
  }
  impl_->CarryOut(orders);
  return result;
}

absl::StatusOr<RunId> JobTable::RunForSession(ProcessKey process, uint32_t uid, const Facts& facts) {
  Orders orders;
  absl::StatusOr<RunId> run;
  {
    const std::lock_guard lock(impl_->mu);
    run = impl_->RunForSession(process, uid, facts, &orders);
  }
  impl_->CarryOut(orders);  // also where it could not be saved: the next try finds the job known and orders nothing
  return run;
}

ProcessKey JobTable::SeenProcess(ProcessKey gone, uint32_t uid) const {
  const std::lock_guard lock(impl_->mu);
  return impl_->SeenWithPid(gone, uid);
}

absl::StatusOr<JobSnapshot> JobTable::EndJob(RunId run, const std::string& reason) {
  JobSnapshot result;
  {
    const std::lock_guard lock(impl_->mu);
    JobEntry* entry = impl_->Find(run);
    if (entry == nullptr) return absl::NotFoundError(fmt::format("no run {}; `stepscope jobs` lists them", run.value));
    if (entry->Finished()) return entry->snapshot;
    impl_->MarkEnded(*entry, reason.empty() ? "ended on request" : reason);
    impl_->Save(*entry).IgnoreError();  // Load() ends it again if this is lost
    result = entry->snapshot;
  }
  impl_->CarryOut({.track = {}, .untrack = {run}, .ended = {run}});
  return result;
}

absl::Status JobTable::Forget(RunId run) {
  const std::lock_guard lock(impl_->mu);
  JobEntry* entry = impl_->Find(run);
  if (entry == nullptr) return absl::NotFoundError(fmt::format("no run {}", run.value));
  if (!entry->Finished()) {
    return absl::FailedPreconditionError(fmt::format("job {} is still {}; end it first (`stepscope end {}`)",
                                                     entry->snapshot.name, JobStateName(entry->snapshot.state),
                                                     entry->snapshot.name));
  }
  const std::string key = JobKeyOf(entry->snapshot);
  Seal seal;
  seal.meta.push_back({"run", RunMetaId(run), ""});
  if (entry->snapshot.runs == std::vector<RunId>{run}) seal.meta.push_back({"job", key, ""});
  STEPSCOPE_RETURN_IF_ERROR(impl_->store->Commit(seal));
  impl_->entries.erase(run.value);
  JobEntry* newest = nullptr;
  for (auto& [number, other] : impl_->entries) {
    if (JobKeyOf(other.snapshot) != key) continue;
    std::erase(other.snapshot.runs, run);
    newest = &other;
  }
  return newest == nullptr ? absl::OkStatus() : impl_->Save(*newest);
}

void JobTable::AddFact(RunId run, const std::string& key, const std::string& value) {
  const std::lock_guard lock(impl_->mu);
  JobEntry* entry = impl_->Find(run);
  if (entry == nullptr || entry->snapshot.facts.size() >= 1000) return;
  entry->snapshot.facts[key] = value;
  impl_->Save(*entry).IgnoreError();  // saved again with the next change and at the end
}

void JobTable::AddSenderCpu(RunId run, int64_t cpu_ns) {
  const std::lock_guard lock(impl_->mu);
  if (JobEntry* entry = impl_->Find(run)) entry->snapshot.sender_cpu_ns += cpu_ns;
}

void JobTable::OnProcess(RunId run, ProcessKey process, ProcessKey parent) {
  const std::lock_guard lock(impl_->mu);
  JobEntry* entry = impl_->Find(run);
  if (entry != nullptr && !entry->Finished()) impl_->Follow(*entry, process, parent);
}

void JobTable::OnProcessExit(RunId run, ProcessKey process) {
  const std::lock_guard lock(impl_->mu);
  if (JobEntry* entry = impl_->Find(run)) entry->alive.erase(process);
}

void JobTable::OnThread(RunId run, int64_t count) {
  const std::lock_guard lock(impl_->mu);
  if (JobEntry* entry = impl_->Find(run)) entry->snapshot.threads += static_cast<uint32_t>(count);
}

void JobTable::SetState(RunId run, JobState state, const std::string& reason) {
  const std::lock_guard lock(impl_->mu);
  JobEntry* entry = impl_->Find(run);
  if (entry == nullptr) return;
  entry->snapshot.state = state;
  entry->snapshot.state_reason = reason;
  impl_->Save(*entry).IgnoreError();  // the uploader's own progress rows decide what is uploaded, not this text
}

void JobTable::Tick() {
  std::vector<RunId> ended;
  {
    const std::lock_guard lock(impl_->mu);
    const NodeTime now = impl_->clock->Node();
    for (auto& [run, entry] : impl_->entries) impl_->Step(entry, now, &ended);
    for (const RunId run : ended) impl_->Save(*impl_->Find(run)).IgnoreError();  // Load() ends it again if this is lost
  }
  impl_->CarryOut({.track = {}, .untrack = ended, .ended = ended});
}

std::vector<JobSnapshot> JobTable::List() const {
  const std::lock_guard lock(impl_->mu);
  std::vector<JobSnapshot> jobs;
  for (auto it = impl_->entries.rbegin(); it != impl_->entries.rend(); ++it) jobs.push_back(it->second.snapshot);
  return jobs;
}

absl::StatusOr<JobSnapshot> JobTable::Find(const std::string& ref) const {
  const std::vector<JobSnapshot> jobs = List();
  if (jobs.empty()) {
    return absl::NotFoundError("this node has recorded no job yet; start one with `stepscope run -- CMD`");
  }
  if (ref.empty() || ref == "last") return jobs.front();
  for (const JobSnapshot& job : jobs) {
    if (job.name == ref || job.id == ref || job.job == ref) return job;
  }
  std::string known;
  for (size_t i = 0; i < jobs.size() && i < 8; ++i) known += (i == 0 ? "" : ", ") + jobs[i].name;
  return absl::NotFoundError(fmt::format("no job \"{}\" on this node; it has: {}", ref, known));
}

absl::StatusOr<JobSnapshot> JobTable::ByRun(RunId run) const {
  const std::lock_guard lock(impl_->mu);
  if (const JobEntry* entry = impl_->Find(run)) return entry->snapshot;
  return absl::NotFoundError(fmt::format("no run {}", run.value));
}

std::vector<ProcessKey> JobTable::Processes(RunId run) const {
  const std::lock_guard lock(impl_->mu);
  std::vector<ProcessKey> processes;
  const JobEntry* entry = impl_->Find(run);
  if (entry == nullptr) return processes;
  for (const RankInfo& rank : entry->snapshot.ranks) {
    if (entry->alive.contains(rank.process)) processes.push_back(rank.process);
  }
  for (const ProcessKey& process : entry->alive) {
    if (std::ranges::find(processes, process) == processes.end()) processes.push_back(process);
  }
  return processes;
}

int32_t JobTable::RankOf(RunId run, ProcessKey process) const {
  const std::lock_guard lock(impl_->mu);
  const JobEntry* entry = impl_->Find(run);
  return entry == nullptr ? -1 : stepscope::RankOf(*entry, process);
}

bool JobTable::AnyRunning() const {
  const std::lock_guard lock(impl_->mu);
  return std::ranges::any_of(impl_->entries, [](const auto& e) { return !e.second.Finished(); });
}

}  // namespace stepscope
