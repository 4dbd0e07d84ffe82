// SPDX-License-Identifier: Apache-2.0
// JobTable: which job (and so which run) a process belongs to, and the life of jobs:
// running → quiet → ended → (uploader) done | failed. Rows of the "job" and "run" meta kinds mirror it.
//
// Thread rule: any thread; one mutex inside. Callbacks run on the caller's thread without the mutex held.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/time.h"
#include "storage/store.h"

namespace stepscope {

/// One process for its whole life: a pid alone is reused.
struct ProcessKey {
  Pid pid;
  int64_t start_ticks = 0;  ///< field 22 of /proc/PID/stat
  friend auto operator<=>(const ProcessKey&, const ProcessKey&) = default;
};

/// Start time of a live process in clock ticks since boot; NOT_FOUND when it is gone. `proc` is the root of procfs.
absl::StatusOr<int64_t> ReadStartTicks(Pid pid, const std::string& proc = "/proc");

struct RankInfo {
  int32_t rank = -1;
  int32_t local_rank = -1;
  int32_t world_size = -1;
  int32_t restart = 0;
  ProcessKey process;
  bool alive = false;
};

struct LossKey {
  int64_t stage = 0;
  int64_t reason = 0;
  int64_t table = 0;
  friend auto operator<=>(const LossKey&, const LossKey&) = default;
};
struct LossAmount {
  int64_t count = 0;  ///< -1 = unknown
  int64_t bytes = 0;
};

enum class JobState { kRunning, kQuiet, kEnded, kUploading, kDone, kFailed };
const char* JobStateName(JobState state);

struct JobSnapshot {
  RunId run;                ///< the one the rest speaks of
  std::vector<RunId> runs;  ///< of the job, oldest first
  std::string job;          ///< "<uid>.<kind>.<id>"
  std::string name;
  uint32_t uid = 0;
  std::string tenant;
  std::string kind;
  std::string id;
  uint32_t attempt = 0;
  JobState state = JobState::kRunning;
  std::string state_reason;
  NodeTime start_node;
  WallTime start_wall;
  NodeTime end_node;  ///< 0 while running
  WallTime end_wall;
  std::vector<RankInfo> ranks;
  std::map<std::string, std::string> facts;
  std::string command;
  uint32_t processes = 0;
  uint32_t threads = 0;
  int64_t sender_cpu_ns = 0;
  std::string hostname;
  std::string boot_id;
};

struct StartJobSpec {
  std::string name;
  std::string kind;  ///< empty = run
  std::string id;    ///< empty = made from pid + start time
  uint32_t uid = 0;
  std::string tenant;  ///< empty = host
  uint32_t attempt = 0;
  std::optional<ProcessKey> root;
  std::map<std::string, std::string> facts;
  std::string command;
};

/// What an agent's session needs of jobs, as a seam: JobTable in production, a fake in tests.
class SessionJobs {
 public:
  virtual ~SessionJobs() = default;
  /// Job of an agent session: the tracked tree the process lives in, else what ClaimOf says: its environment facts
  /// (STEPSCOPE_JOB, SLURM_JOB_ID, TORCHELASTIC_RUN_ID, …), else its pod, its launcher or itself. Also records its rank.
  virtual absl::StatusOr<RunId> RunForSession(ProcessKey process, uint32_t uid,
                                              const std::map<std::string, std::string>& facts) = 0;
  /// A process that ended before anybody read its start time: the newest one with its pid that a running job of the user
  /// knows; unchanged when there is none.
  virtual ProcessKey SeenProcess(ProcessKey gone, uint32_t uid) const = 0;
  virtual void AddFact(RunId run, const std::string& key, const std::string& value) = 0;
  virtual void AddSenderCpu(RunId run, int64_t cpu_ns) = 0;
  /// Rank a process works for: its own, or that of its nearest ancestor with one; -1 = none.
  virtual int32_t RankOf(RunId run, ProcessKey process) const = 0;
};

class JobTable final : public SessionJobs {
 public:
  /// Called when a process tree begins or ends to be followed (wired to the sched collector), when a job ended, and by Load,
  /// before the others, for each run that was open when the last daemon stopped: it returns until when that run can have lived.
  struct Hooks {
    std::function<void(RunId, ProcessKey)> track;
    std::function<void(RunId)> untrack;
    std::function<void(RunId)> ended;
    std::function<NodeTime(const JobSnapshot&)> was_open = {};
  };
  /// `proc` is the root of procfs.
  JobTable(Store* store, const Clock* clock, std::string boot_id, std::string hostname, Hooks hooks, std::string proc = "/proc");
  ~JobTable() override;

  /// Reads jobs of earlier daemons; those still marked running are taken up again if a root process lives, else ended. Runs of
  /// `unread` processes, whose last records are still to be read, end as a quiet job does.
  absl::Status Load(const std::vector<std::pair<RunId, ProcessKey>>& unread = {});

  /// The tenant is that of the root process where there is one. NOT_FOUND when that ended.
  absl::StatusOr<JobSnapshot> StartJob(StartJobSpec spec);
  absl::StatusOr<RunId> RunForSession(ProcessKey process, uint32_t uid, const std::map<std::string, std::string>& facts) override;
  ProcessKey SeenProcess(ProcessKey gone, uint32_t uid) const override;
  absl::StatusOr<JobSnapshot> EndJob(RunId run, const std::string& reason);
  /// Removes a finished job from the table (its rows are deleted by the caller).
  absl::Status Forget(RunId run);

  void AddFact(RunId run, const std::string& key, const std::string& value) override;
  void AddSenderCpu(RunId run, int64_t cpu_ns) override;
  void OnProcess(RunId run, ProcessKey process, ProcessKey parent);  ///< a followed process appeared
  void OnProcessExit(RunId run, ProcessKey process);
  void OnThread(RunId run, int64_t count);
  void SetState(RunId run, JobState state, const std::string& reason);
  /// Lifecycle clock, once a second.
  void Tick();

  std::vector<JobSnapshot> List() const;  ///< newest first
  /// By name, id or "<uid>.<kind>.<id>"; "" and "last" = the newest. NOT_FOUND lists what there is.
  absl::StatusOr<JobSnapshot> Find(const std::string& ref) const;
  absl::StatusOr<JobSnapshot> ByRun(RunId run) const;
  std::vector<ProcessKey> Processes(RunId run) const;  ///< alive ones, with their rank's process first
  int32_t RankOf(RunId run, ProcessKey process) const override;
  bool AnyRunning() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepscope
