// SPDX-License-Identifier: Apache-2.0
#include "storage/parquet/arrow_store.h"

#include <arrow/filesystem/localfs.h>
#include <arrow/filesystem/s3fs.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <ext/stdio_sync_filebuf.h>
#include <iostream>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "storage/parquet/arrow_result.h"
#include "storage/parquet/parquet_file.h"

namespace stepscope {
namespace {

/// Few and short: the uploader above retries for days, so a request need not.
class ShortRetry final : public arrow::fs::S3RetryStrategy {
 public:
  explicit ShortRetry(int32_t attempts) : attempts_(attempts) {}
  bool ShouldRetry(const AWSErrorDetail& error, int64_t attempted_retries) override {
    return error.should_retry && attempted_retries + 1 < attempts_;
  }
  int64_t CalculateDelayBeforeNextRetry(const AWSErrorDetail&, int64_t attempted_retries) override {
    return 200 << attempted_retries;
  }

 private:
  const int32_t attempts_;
};

/// Exit handlers run in reverse order, so a handler runs before the destructors of what exists when it is registered. A hung
/// request holds the client: waiting for it would hang the exit, and the destructors would pull the ground from under its thread.
void TakeDownS3(int exit_status, void*) {
  if (calls_inside == 0) {
    static_cast<void>(arrow::fs::EnsureS3Finalized());
    return;
  }
  static_cast<void>(fflush(nullptr));
  _exit(exit_status);
}

/// Arrow writes to std::cerr what fails in a destructor. Bound deeply, Arrow and this library use libstdc++'s own std::cerr, but
/// libstdc++ has set up the copy that the linker made in the program: ours is all zeroes, and writing to it ends the process.
void SetUpErrorStream() {
  const void* first_word = nullptr;
  std::memcpy(static_cast<void*>(&first_word), static_cast<const void*>(&std::cerr), sizeof(first_word));
  if (first_word != nullptr) return;
  static auto* const buffer = new __gnu_cxx::stdio_sync_filebuf<char>(stderr);  // lives as long as the process may write
  ::new (static_cast<void*>(&std::cerr)) std::ostream(buffer);
}

arrow::Result<std::shared_ptr<arrow::fs::FileSystem>> OpenS3(const DatasetConfig& config) {
  SetUpErrorStream();
  ARROW_RETURN_NOT_OK(arrow::fs::EnsureS3Initialized());
  static const int after_start [[maybe_unused]] = on_exit(&TakeDownS3, nullptr);
  arrow::fs::S3Options options = arrow::fs::S3Options::Defaults();
  options.endpoint_override = config.endpoint;
  options.scheme = config.scheme;
  options.region = config.region;
  options.sse_customer_key.assign(config.sse_c_key, config.sse_c_key_bytes);
  options.connect_timeout = config.timeout_seconds;
  options.request_timeout = config.timeout_seconds;
  options.retry_strategy = std::make_shared<ShortRetry>(config.attempts);
  options.background_writes = false;  // an error is reported by the call that caused it
  options.allow_delayed_open = true;  // one PutObject instead of three requests for a small file
  ARROW_ASSIGN_OR_RAISE(auto file_system, arrow::fs::S3FileSystem::Make(options));
  // The first client made more static objects; whichever handler comes first does the work.
  static const int after_client [[maybe_unused]] = on_exit(&TakeDownS3, nullptr);
  return file_system;
}

class ArrowStore final : public DatasetStore {
 public:
  ArrowStore(std::shared_ptr<arrow::fs::FileSystem> file_system, std::string root, bool s3)
      : file_system_(std::move(file_system)), root_(std::move(root)), s3_(s3) {}

  DatasetResult CreateParquet(const char* path, const ParquetColumn* columns, int32_t count, DatasetSink sink, void* context,
                              DatasetFile** file) override {
    return Guarded([&]() -> arrow::Status {
      const std::vector<ParquetColumn> list(columns, columns + count);
      ARROW_ASSIGN_OR_RAISE(*file, OpenParquetFile(Target(path), list, sink, context));
      return arrow::Status::OK();
    });
  }
  DatasetResult PutBytes(const char* path, const void* data, size_t bytes) override {
    return Guarded([&] { return PutWholeFile(Target(path), data, bytes); });
  }
  DatasetResult Size(const char* path, int64_t* bytes) override {
    return Guarded([&]() -> arrow::Status {
      ARROW_ASSIGN_OR_RAISE(const arrow::fs::FileInfo info, file_system_->GetFileInfo(Target(path).path));
      *bytes = info.IsFile() ? info.size() : -1;
      return arrow::Status::OK();
    });
  }
  DatasetResult Keys(DatasetKeys* keys) override {
    return Guarded([&]() -> arrow::Status {
      const auto* s3 = dynamic_cast<const arrow::fs::S3FileSystem*>(file_system_.get());
      if (s3 == nullptr) return arrow::Status::Invalid("a folder has no keys");
      const arrow::fs::S3Options options = s3->options();
      const bool fits = Copy(options.GetAccessKey(), keys->access) && Copy(options.GetSecretKey(), keys->secret) &&
                        Copy(options.GetSessionToken(), keys->token) && Copy(s3->region(), keys->region);
      return fits ? arrow::Status::OK() : arrow::Status::Invalid("a credential is too long");
    });
  }
  void Release() override { delete this; }

 private:
  template <size_t N>
  static bool Copy(const std::string& text, char (&to)[N]) {
    if (text.size() >= N) return false;
    text.copy(to, text.size());
    to[text.size()] = 0;
    return true;
  }
  FileTarget Target(const char* path) const { return {file_system_, root_ + "/" + path, !s3_}; }

  const std::shared_ptr<arrow::fs::FileSystem> file_system_;
  const std::string root_;
  const bool s3_;
};

}  // namespace

DatasetResult OpenArrowStore(const DatasetConfig* config, DatasetStore** store) {
  return Guarded([&]() -> arrow::Status {
    std::shared_ptr<arrow::fs::FileSystem> file_system = std::make_shared<arrow::fs::LocalFileSystem>();
    if (config->s3) {
      ARROW_ASSIGN_OR_RAISE(file_system, OpenS3(*config));
    }
    *store = new ArrowStore(std::move(file_system), config->root, config->s3);
    return arrow::Status::OK();
  });
}

}  // namespace stepscope
