// SPDX-License-Identifier: Apache-2.0
// Dataset: the daemon's side of lib/stepscope_dataset.so. Opens the module on first use and turns its results into Status
// texts that name the place, the cause and the next step.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/parquet/dataset_module.h"

namespace stepscope {

struct DatasetOptions {
  std::string url;       ///< s3://bucket/prefix or file:///dir
  std::string endpoint;  ///< http://127.0.0.1:9444; empty = AWS. Plain http is accepted for loopback only.
  std::string region;
  std::string sse_c_key_file;  ///< 32 raw bytes
  std::string
      module_path;  ///< empty = stepscope_dataset.so in ../lib of the program, then beside it; stepscope_sweep.so lies beside it
};

struct FileTotals {
  uint64_t bytes = 0;
  std::string sha256;  ///< hex
};

class Dataset {
 public:
  /// INVALID_ARGUMENT for a url or endpoint that cannot be meant; NOT_FOUND when the module is missing.
  static absl::StatusOr<std::unique_ptr<Dataset>> Open(const DatasetOptions& options);
  virtual ~Dataset() = default;

  /// A Parquet file under `path`; destroyed before Close() it leaves nothing behind.
  class File {
   public:
    virtual ~File() = default;
    virtual absl::Status BeginRowGroup() = 0;
    virtual absl::Status WriteInts(std::span<const int64_t> values) = 0;
    virtual absl::Status WriteStrings(std::span<const int32_t> indices, std::span<const std::string> dictionary) = 0;
    virtual absl::StatusOr<FileTotals> Close() = 0;
  };
  virtual absl::StatusOr<std::unique_ptr<File>> CreateParquet(const std::string& path,
                                                              std::span<const ParquetColumn> columns) = 0;
  virtual absl::Status PutText(const std::string& path, std::string_view text) = 0;
  /// Bytes of the object; -1 when there is none.
  virtual absl::StatusOr<int64_t> Size(const std::string& path) = 0;
  /// Aborts multipart uploads of this object that an earlier try left open: they are invisible but cost storage. Returns their
  /// number. Call while no File of this path is open.
  virtual absl::StatusOr<int> SweepUploads(const std::string& path) = 0;
};

}  // namespace stepscope
