// SPDX-License-Identifier: Apache-2.0
// The boundary of lib/stepscope_dataset.so: Parquet files in a folder or an S3 bucket, on Apache Arrow. The daemon opens the
// module on the first upload (dataset.h) and calls it through these classes alone.
//
// Rules of the boundary: plain types only, nothing is thrown across it, no Arrow or absl type crosses it, objects are deleted
// by the side that made them (Release). Not thread-safe: one thread at a time per object.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stepscope {

constexpr uint32_t kDatasetAbi = 1;
constexpr size_t kDatasetTextBytes = 1024;
constexpr const char* kDatasetEntryPoint = "stepscope_dataset_v1";
constexpr const char* kSweepEntryPoint = "stepscope_sweep_v1";
constexpr int kRequestTimeoutSeconds = 5;  ///< to connect, and for an answer to begin

enum class DatasetCode : int32_t {
  kOk = 0,
  kDenied = 1,       ///< wrong credentials, or no right to write there
  kNoBucket = 2,     ///< the bucket does not exist
  kUnreachable = 3,  ///< no answer, or an answer that says "later"
  kInvalid = 4,      ///< the configuration cannot be meant
  kFailed = 5,       ///< anything else
};

struct DatasetResult {
  DatasetCode code = DatasetCode::kOk;
  char text[kDatasetTextBytes] = {};  ///< the cause in the library's words; NUL-terminated
  bool ok() const { return code == DatasetCode::kOk; }
};

struct DatasetConfig {
  const char* root = "";  ///< "bucket/prefix", or an absolute folder
  bool s3 = false;
  const char* endpoint = "";  ///< host:port; empty = AWS
  const char* scheme = "https";
  const char* region = "";
  const char* sse_c_key = "";  ///< 32 raw bytes or none
  size_t sse_c_key_bytes = 0;
  double timeout_seconds = kRequestTimeoutSeconds;
  int32_t attempts = 2;  ///< of one request
};

enum class ParquetType : int32_t { kInt64 = 0, kInt32 = 1, kUint32 = 2, kReal = 3, kTimeMicros = 4, kString = 5 };

struct ParquetColumn {
  const char* name = "";
  ParquetType type = ParquetType::kInt64;
};

struct DatasetText {
  const char* data = nullptr;
  size_t bytes = 0;
};

/// One Parquet file that is being written. It exists under its path only after Close() returned OK.
class DatasetFile {
 public:
  /// The next row group; all columns of the one before have been written.
  virtual DatasetResult BeginRowGroup() = 0;
  /// Next column of the row group: kReal values are bit-cast doubles, kInt32 and kUint32 are narrowed.
  virtual DatasetResult WriteInts(const int64_t* values, int64_t rows) = 0;
  /// Next column, kString: row i is dictionary[indices[i]].
  virtual DatasetResult WriteStrings(const int32_t* indices, int64_t rows, const DatasetText* dictionary, int32_t entries) = 0;
  virtual DatasetResult Close() = 0;
  /// Leaves nothing behind: no object, no partial file, no open multipart upload.
  virtual DatasetResult Abort() = 0;
  virtual void Release() = 0;  ///< aborts a file that is not closed, then deletes this

 protected:
  virtual ~DatasetFile() = default;
};

/// What signs a request; found by the AWS default chain.
struct DatasetKeys {
  char access[256] = {};
  char secret[512] = {};
  char token[8192] = {};
  char region[64] = {};
};

/// Sees every byte of a file in order.
using DatasetSink = void (*)(void* context, const void* data, size_t bytes);

class DatasetStore {
 public:
  virtual DatasetResult CreateParquet(const char* path, const ParquetColumn* columns, int32_t count, DatasetSink sink,
                                      void* context, DatasetFile** file) = 0;
  virtual DatasetResult PutBytes(const char* path, const void* data, size_t bytes) = 0;
  /// -1 when there is no such object.
  virtual DatasetResult Size(const char* path, int64_t* bytes) = 0;
  virtual DatasetResult Keys(DatasetKeys* keys) = 0;
  virtual void Release() = 0;

 protected:
  virtual ~DatasetStore() = default;
};

struct DatasetModule {
  uint32_t abi = kDatasetAbi;
  DatasetResult (*open)(const DatasetConfig* config, DatasetStore** store) = nullptr;
};
using DatasetEntryPoint = const DatasetModule* (*)();

/// One object of a bucket, for lib/stepscope_sweep.so. Arrow cannot list or abort multipart uploads of a dead process; curl can.
/// It is a module of its own because curl's OpenSSL must not meet the one inside libparquet.
struct SweepTarget {
  const char* server = "";  ///< https://host:port
  const char* bucket = "";
  const char* key = "";
  const DatasetKeys* keys = nullptr;
  long timeout_seconds = kRequestTimeoutSeconds;
};
/// Aborts every open multipart upload of exactly this key; `aborted` counts them.
using SweepEntryPoint = DatasetResult (*)(const SweepTarget* target, int32_t* aborted);

}  // namespace stepscope
