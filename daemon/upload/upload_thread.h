// SPDX-License-Identifier: Apache-2.0
// UploadThread: the Uploader over any RunDirectory. One thread looks at every run that is not done, uploads parts as they fall
// due, and retries what failed, from 5 s up to every 10 minutes, for as long as the job is kept.
//
// Thread rule: any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "daemon/upload/run_directory.h"
#include "daemon/upload/uploader.h"

namespace stepscope {

struct UploadSeams {
  Store* store;
  const RunDictionary* dictionary;
  std::shared_ptr<RunDirectory> runs;
  const Clock* clock;
  std::function<absl::Status()> drain = {};
  DamagedBlocks* damaged = nullptr;
  std::string module_path = {};
  int64_t first_retry_ms = 5000;
};

std::unique_ptr<Uploader> CreateUploadThread(const UploadConfig& config, const UploadSeams& seams);

}  // namespace stepscope
