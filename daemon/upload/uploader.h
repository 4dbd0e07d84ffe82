// SPDX-License-Identifier: Apache-2.0
// Uploader: turns stored rows of a run into Parquet parts under the S3 prefix, continuously, and the closing manifest last.
// Its progress lives in the store's upload family, so a killed daemon resumes without uploading anything twice.
//
// Thread rule: any thread; the work happens on one "uploader" thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "daemon/jobs/job_table.h"
#include "daemon/pipeline/damaged_blocks.h"
#include "daemon/pipeline/table_reader.h"
#include "storage/store.h"

namespace stepscope {

struct UploadConfig {
  std::string url;       ///< s3://bucket/prefix or file:///dir; empty = no upload
  std::string endpoint;  ///< http://127.0.0.1:9444; empty = AWS
  std::string region;
  std::string sse_c_key_file;
  int64_t part_bytes = int64_t{128} << 20;
  int64_t part_seconds = 600;
  int64_t jitter_ms = 2000;  ///< parts start at a random moment within this
};

struct UploadStatus {
  std::string state = "off";  ///< off, pending, running, done, failed
  std::string reason;
  int64_t next_try_wall_ns = 0;
  uint32_t parts_done = 0;
  uint32_t parts_total = 0;
  uint64_t bytes_done = 0;
  std::string url;
  std::map<TableId, uint64_t> rows;
};

class Uploader {
 public:
  struct Parts {
    Store* store;
    const RunDictionary* dictionary;
    JobTable* jobs;
    const Clock* clock;
    std::function<absl::Status()> drain =
        {};                            ///< stores what is still in memory, before a tail or a request; none = nothing to do
    DamagedBlocks* damaged = nullptr;  ///< learns of blocks that cannot be read
    std::string module_path = {};      ///< of stepscope_dataset.so; empty = beside the program (storage/parquet/dataset.h)
  };
  static std::unique_ptr<Uploader> Create(const UploadConfig& config, const Parts& parts);
  virtual ~Uploader() = default;
  virtual void Start() = 0;
  virtual void Stop() = 0;               ///< finishes or aborts the request in flight within 5 s
  virtual void JobEnded(RunId run) = 0;  ///< tail and closing manifest
  virtual void Request(RunId run) = 0;   ///< upload what is there, now
  virtual UploadStatus Status(RunId run) const = 0;
};

}  // namespace stepscope
