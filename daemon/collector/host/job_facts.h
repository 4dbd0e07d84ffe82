// SPDX-License-Identifier: Apache-2.0
// What this machine knows of a job besides its processes, as key/value facts for JobTable::AddFact.
//   ReadInstanceFacts        /sys/class/dmi/id:            instance.vendor, instance.type, instance.id (EC2)
//   ReadTrainingFacts        /opt/ml/input/config/*.json, which the SageMaker platform writes beside the job:
//                            hyperparameter.<name>, instance.type,
//                            sagemaker.{current_host,hosts,network_interface,instance_group}, sagemaker.channel.<name>
// A file that is not there gives no facts; one that is there but cannot be understood is a problem with its cause. A value whose
// name says that it is a secret is "hidden"; long values are cut and end in "…".
//
// The daemon calls both when it begins to follow a job. /opt/ml is the daemon's own, so its facts are a job's only when both see
// the same file systems (SharesFiles): a file tree that a stranger made is never walked.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "daemon/jobs/job_table.h"

namespace stepscope {

struct JobFacts {
  std::map<std::string, std::string> facts;
  std::vector<std::string> problems;  ///< for the daemon's log: the file, the cause
};

/// `root` is in front of /sys and /opt; empty = the machine itself.
JobFacts ReadInstanceFacts(const std::string& root);
JobFacts ReadTrainingFacts(const std::string& root);

/// True when the process is in the mount namespace of the daemon. False when that cannot be told.
bool SharesFiles(ProcessKey process, const std::string& proc);

}  // namespace stepscope
