// SPDX-License-Identifier: Apache-2.0
#include "daemon/jobs/job_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "base/status.h"
#include "daemon/jobs/job_entry.h"
#include "daemon/jobs/job_identity.h"
#include "daemon/jobs/process_tree.h"
#include "storage/keys.h"

namespace stepscope {
namespace {

constexpr int64_t kQuietNs = 60 * kNsPerSecond;
constexpr int64_t kQuietWithLauncherNs = 600 * kNsPerSecond;
constexpr char kProc[] = "/proc";

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

  mutable std::mutex mu;
  std::map<uint32_t, JobEntry> entries;  // by run, every run the store knows
  uint32_t next_run = 1;

  JobEntry* Find(RunId run) {
    const auto it = entries.find(run.value);
    return it == entries.end() ? nullptr : &it->second;
  }
  JobEntry* FindRunning(const std::string& job_key) {
    for (auto& [run, entry] : entries) {
      if (!entry.Finished() && JobKeyOf(entry.snapshot) == job_key) return &entry;
    }
    return nullptr;
  }

  absl::Status Save(const JobEntry& entry);
  bool IsNewestRun(const JobEntry& entry) const;
  ProcessKey SeenWithPid(ProcessKey gone, uint32_t uid) const;
  JobEntry* Knowing(ProcessKey process);
  absl::Status ReadEntries();
  absl::StatusOr<JobEntry*> Open(const StartJobSpec& spec);
  void Follow(JobEntry& entry, ProcessKey process, ProcessKey parent);
  void LearnAncestry(JobEntry& entry, const std::vector<ProcessKey>& chain);
  void AddRank(JobEntry& entry, ProcessKey process, const RankFacts& facts);
  int32_t RankOf(const JobEntry& entry, ProcessKey process) const;
  bool Descends(const JobEntry& entry, ProcessKey process, ProcessKey ancestor) const;
  void Step(JobEntry& entry, NodeTime now, std::vector<RunId>* ended);
  void MarkEnded(JobEntry& entry, const std::string& reason);
  absl::StatusOr<RunId> RunForSession(ProcessKey process, uint32_t uid, const Facts& facts, std::optional<ProcessKey>* new_root);
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

absl::StatusOr<JobEntry*> JobTable::Impl::Open(const StartJobSpec& spec) {
  JobSnapshot s;
  s.uid = spec.uid;
  s.tenant = spec.tenant.empty() ? "host" : spec.tenant;
  s.kind = spec.kind.empty() ? "run" : spec.kind;
  s.id = spec.id;
  if (s.id.empty() && spec.root) s.id = fmt::format("{}-{}", spec.root->pid.value, spec.root->start_ticks);
  if (s.id.empty()) return absl::InvalidArgumentError("StartJob: neither an id nor a pid was given; give one of them");
  s.name = spec.name.empty() ? s.id : spec.name;
  s.attempt = spec.attempt;
  s.job = fmt::format("{}.{}.{}", s.uid, s.kind, s.id);
  if (JobEntry* running = FindRunning(JobKeyOf(s))) return running;

  JobEntry entry;
  for (const auto& [run, other] : entries) {
    if (JobKeyOf(other.snapshot) != JobKeyOf(s)) continue;
    s.runs.push_back(RunId{run});
    if (other.snapshot.attempt == s.attempt && other.snapshot.boot_id == boot_id) entry.reopening = other.reopening + 1;
  }
  s.run = RunId{next_run++};
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

void JobTable::Impl::LearnAncestry(JobEntry& entry, const std::vector<ProcessKey>& chain) {
  for (size_t i = 0; i + 1 < chain.size(); ++i) entry.parent[chain[i]] = chain[i + 1];
}

bool JobTable::Impl::Descends(const JobEntry& entry, ProcessKey process, ProcessKey ancestor) const {
  for (int depth = 0; depth < 128; ++depth) {
    const auto it = entry.parent.find(process);
    if (it == entry.parent.end()) return false;
    process = it->second;
    if (process == ancestor) return true;
  }
  return false;
}

/// Loader workers inherit RANK from their rank's process; only the outermost process with a rank is the rank.
void JobTable::Impl::AddRank(JobEntry& entry, ProcessKey process, const RankFacts& facts) {
  auto& ranks = entry.snapshot.ranks;
  for (RankInfo& known : ranks) {
    if (known.rank != facts.rank) continue;
    if (known.process == process || Descends(entry, process, known.process)) return;
    if (facts.restart < known.restart) return;
    if (Descends(entry, known.process, process) || facts.restart > known.restart || !known.alive) {
      known = {facts.rank, facts.local_rank, facts.world_size, facts.restart, process, true};
      return;
    }
  }
  ranks.push_back({facts.rank, facts.local_rank, facts.world_size, facts.restart, process, true});
  std::ranges::sort(ranks, {}, &RankInfo::rank);
}

int32_t JobTable::Impl::RankOf(const JobEntry& entry, ProcessKey process) const {
  for (int depth = 0; depth < 128; ++depth) {
    for (const RankInfo& rank : entry.snapshot.ranks) {
      if (rank.process == process) return rank.rank;
    }
    const auto it = entry.parent.find(process);
    if (it == entry.parent.end()) return -1;
    process = it->second;
  }
  return -1;
}

/// The running job that has this process, alive or just ended; nullptr = none.
JobEntry* JobTable::Impl::Knowing(ProcessKey process) {
  for (auto& [run, entry] : entries) {
    if (!entry.Finished() && entry.seen.contains(process)) return &entry;
  }
  return nullptr;
}

/// A process that ended before anybody read its start time: the newest one with its pid that a running job of the user knows.
ProcessKey JobTable::Impl::SeenWithPid(ProcessKey gone, uint32_t uid) const {
  for (const auto& [run, entry] : entries) {
    if (entry.Finished() || (entry.snapshot.uid != uid && uid != 0)) continue;
    for (const ProcessKey& seen : entry.seen) {
      if (seen.pid == gone.pid && seen.start_ticks > gone.start_ticks) gone = seen;
    }
  }
  return gone;
}

absl::StatusOr<RunId> JobTable::Impl::RunForSession(ProcessKey process, uint32_t uid, const Facts& facts,
                                                    std::optional<ProcessKey>* new_root) {
  if (process.start_ticks == 0) process = SeenWithPid(process, uid);
  const std::vector<ProcessKey> chain = Ancestry(process, kProc);
  JobEntry* entry = nullptr;
  for (const ProcessKey& ancestor : chain) {
    JobEntry* candidate = Knowing(ancestor);
    if (candidate == nullptr) continue;
    if (candidate->snapshot.uid == uid || uid == 0) entry = candidate;
    break;
  }
  if (entry == nullptr) {
    StartJobSpec spec;
    spec.uid = uid;
    spec.kind = "api";
    spec.root = process;
    if (const auto identity = IdentityFromFacts(facts)) {
      spec.kind = identity->kind;
      spec.id = identity->id;
      spec.attempt = identity->attempt;
    }
    STEPSCOPE_ASSIGN_OR_RETURN(entry, Open(spec));
    entry->roots.push_back(process);
    *new_root = process;
  }
  LearnAncestry(*entry, chain);
  Follow(*entry, process, chain.size() > 1 ? chain[1] : ProcessKey{});
  if (const RankFacts rank = RankFromFacts(facts); rank.rank >= 0) AddRank(*entry, process, rank);
  if (entry->snapshot.state == JobState::kQuiet) entry->snapshot.state = JobState::kRunning;
  STEPSCOPE_RETURN_IF_ERROR(Save(*entry));
  return entry->snapshot.run;
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
  std::erase_if(entry.alive, [](const ProcessKey& p) { return !IsAlive(p, kProc); });
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

JobTable::JobTable(Store* store, const Clock* clock, std::string boot_id, std::string hostname, Hooks hooks)
    : impl_(new Impl{store, clock, std::move(boot_id), std::move(hostname), std::move(hooks), {}, {}, 1}) {}
JobTable::~JobTable() = default;

absl::Status JobTable::Impl::ReadEntries() {
  std::map<std::string, std::string> jobs;
  STEPSCOPE_RETURN_IF_ERROR(store->ForEachMeta("job", [&](std::string_view id, std::string_view value) {
    jobs.emplace(id, value);
    return true;
  }));
  return store->ForEachMeta("run", [&](std::string_view, std::string_view value) {
    if (auto entry = DecodeEntry(value, jobs)) {
      next_run = std::max(next_run, entry->snapshot.run.value + 1);
      entries.emplace(entry->snapshot.run.value, *std::move(entry));
    }
    return true;
  });
}

absl::Status JobTable::Load() {
  std::vector<std::pair<RunId, ProcessKey>> resumed;
  std::vector<RunId> ended;
  {
    const std::lock_guard lock(impl_->mu);
    STEPSCOPE_RETURN_IF_ERROR(impl_->ReadEntries());
    for (auto& [run, entry] : impl_->entries) {
      if (entry.Finished()) {
        if (entry.snapshot.state != JobState::kDone) ended.push_back(RunId{run});
        continue;
      }
      const bool same_boot = entry.snapshot.boot_id == impl_->boot_id;
      for (const ProcessKey& root : entry.roots) {
        if (!same_boot || !IsAlive(root, kProc)) continue;
        impl_->Follow(entry, root, {});
        resumed.emplace_back(RunId{run}, root);
      }
      if (!entry.alive.empty()) continue;
      impl_->MarkEnded(entry, "it ended while no daemon was running");
      STEPSCOPE_RETURN_IF_ERROR(impl_->Save(entry));
      ended.push_back(RunId{run});
    }
  }
  for (const auto& [run, root] : resumed) {
    if (impl_->hooks.track) impl_->hooks.track(run, root);
  }
  for (const RunId run : ended) {
    if (impl_->hooks.ended) impl_->hooks.ended(run);
  }
  return absl::OkStatus();
}

absl::StatusOr<JobSnapshot> JobTable::StartJob(const StartJobSpec& spec) {
  JobSnapshot result;
  {
    const std::lock_guard lock(impl_->mu);
    STEPSCOPE_ASSIGN_OR_RETURN(JobEntry * entry, impl_->Open(spec));
    for (const auto& [key, value] : spec.facts) entry->snapshot.facts[key] = value;
    if (spec.root) {
      entry->roots.push_back(*spec.root);
      impl_->Follow(*entry, *spec.root, {});
    }
    STEPSCOPE_RETURN_IF_ERROR(impl_->Save(*entry));
    result = entry->snapshot;
  }
  if (spec.root && impl_->hooks.track) impl_->hooks.track(result.run, *spec.root);
  return result;
}

absl::StatusOr<RunId> JobTable::RunForSession(ProcessKey process, uint32_t uid, const Facts& facts) {
  std::optional<ProcessKey> new_root;
  RunId run;
  {
    const std::lock_guard lock(impl_->mu);
    STEPSCOPE_ASSIGN_OR_RETURN(run, impl_->RunForSession(process, uid, facts, &new_root));
  }
  if (new_root && impl_->hooks.track) impl_->hooks.track(run, *new_root);
  return run;
}

absl::StatusOr<JobSnapshot> JobTable::EndJob(RunId run, const std::string& reason) {
  JobSnapshot result;
  {
    const std::lock_guard lock(impl_->mu);
    JobEntry* entry = impl_->Find(run);
    if (entry == nullptr) return absl::NotFoundError(fmt::format("no run {}; `stepscope jobs` lists them", run.value));
    if (entry->Finished()) return entry->snapshot;
    impl_->MarkEnded(*entry, reason.empty() ? "ended on request" : reason);
    STEPSCOPE_RETURN_IF_ERROR(impl_->Save(*entry));
    result = entry->snapshot;
  }
  if (impl_->hooks.untrack) impl_->hooks.untrack(run);
  if (impl_->hooks.ended) impl_->hooks.ended(run);
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
  Seal seal;
  seal.meta.push_back({"run", RunMetaId(run), ""});
  if (run == entry->snapshot.runs.back()) seal.meta.push_back({"job", JobKeyOf(entry->snapshot), ""});
  STEPSCOPE_RETURN_IF_ERROR(impl_->store->Commit(seal));
  impl_->entries.erase(run.value);
  return absl::OkStatus();
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
  JobEntry* entry = impl_->Find(run);
  if (entry == nullptr) return;
  entry->alive.erase(process);
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
  for (const RunId run : ended) {
    if (impl_->hooks.untrack) impl_->hooks.untrack(run);
    if (impl_->hooks.ended) impl_->hooks.ended(run);
  }
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
  return entry == nullptr ? -1 : impl_->RankOf(*entry, process);
}

bool JobTable::AnyRunning() const {
  const std::lock_guard lock(impl_->mu);
  return std::ranges::any_of(impl_->entries, [](const auto& e) { return !e.second.Finished(); });
}

}  // namespace stepscope
