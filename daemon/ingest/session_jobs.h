// SPDX-License-Identifier: Apache-2.0
// What ingest needs to know about jobs, as a seam: the daemon's JobTable in production, a fake in tests.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/jobs/job_table.h"

namespace stepscope {

class SessionJobs {
 public:
  virtual ~SessionJobs() = default;
  virtual absl::StatusOr<RunId> RunForSession(ProcessKey process, uint32_t uid,
                                              const std::map<std::string, std::string>& facts) = 0;
  virtual void AddFact(RunId run, const std::string& key, const std::string& value) = 0;
  virtual void AddSenderCpu(RunId run, int64_t cpu_ns) = 0;
  /// Rank the process works for, -1 = none.
  virtual int32_t RankOf(RunId run, ProcessKey process) = 0;
  /// The whole key of a process that ended before its start time was read; unchanged when no job of the user knows it.
  virtual ProcessKey SeenProcess(ProcessKey gone, uint32_t uid) = 0;

  /// Host tid of a thread in a pid namespace of its own, as the kernel announced it.
  virtual std::optional<int32_t> HostTid(ProcessKey process, int32_t inner_tid) = 0;
  /// Returns when every announcement made before the call is known.
  virtual void CatchUpThreads() = 0;
};

}  // namespace stepscope
