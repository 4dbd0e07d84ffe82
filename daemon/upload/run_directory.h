// SPDX-License-Identifier: Apache-2.0
// What the uploader knows of jobs and runs. Behind it stands the JobTable (job_runs.h) or a test.
//
// Thread rule: any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/time.h"
#include "daemon/jobs/job_table.h"

namespace stepscope {

/// One run and the job it is part of; fixed but for `ended`.
struct UploadRun {
  RunId run;
  uint32_t uid = 0;
  std::string kind;
  std::string id;
  std::string job_name;
  uint32_t attempt = 0;
  std::string node;  ///< host name
  std::string boot_id;
  NodeTime start_node;
  WallTime start_wall;
  NodeTime end_node;
  WallTime end_wall;
  int64_t nodes_expected = 0;  ///< 0 = unknown
  bool ended = false;
};

class RunDirectory {
 public:
  virtual ~RunDirectory() = default;
  /// Runs that may have rows to upload: all but those of jobs that are done.
  virtual std::vector<UploadRun> Runs() const = 0;
  virtual absl::StatusOr<UploadRun> Find(RunId run) const = 0;
  /// State of the job of `run`; ignored while the job runs.
  virtual void SetJobState(RunId run, JobState state, const std::string& reason) = 0;
};

}  // namespace stepscope
