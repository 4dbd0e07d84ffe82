// SPDX-License-Identifier: Apache-2.0
// What the JobTable keeps of one run, and its form in the store: a "job" row (the job's own facts, shared by its runs) and a
// "run" row.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/jobs/job_table.h"

namespace stepscope {

/// One run and, for the newest run of a job, the job's life.
struct JobEntry {
  JobSnapshot snapshot;
  uint32_t reopening = 0;
  NodeTime quiet_since;
  std::vector<ProcessKey> roots;
  std::set<ProcessKey> alive;
  std::set<ProcessKey> seen;
  std::map<ProcessKey, ProcessKey> parent;  ///< of every process ever seen: outlives the process

  bool Finished() const { return snapshot.state != JobState::kRunning && snapshot.state != JobState::kQuiet; }
};

/// Id of the "job" row: jobs of different tenants never meet.
std::string JobKeyOf(const JobSnapshot& snapshot);
std::string EncodeJob(const JobEntry& entry);
std::string EncodeRun(const JobEntry& entry);
/// `run` is the value of a "run" row, `jobs` all "job" rows by id. nullopt for damaged bytes.
std::optional<JobEntry> DecodeEntry(std::string_view run, const std::map<std::string, std::string>& jobs);

}  // namespace stepscope
