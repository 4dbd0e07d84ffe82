// SPDX-License-Identifier: Apache-2.0
// arrow::Status → DatasetResult, and the guard that keeps exceptions inside the module.
#pragma once

#include <arrow/status.h>

#include <atomic>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <string>

#include "storage/parquet/dataset_module.h"

namespace stepscope {

inline DatasetResult MakeResult(DatasetCode code, const std::string& text) {
  DatasetResult result;
  result.code = code;
  const size_t bytes = text.size() < kDatasetTextBytes ? text.size() : kDatasetTextBytes - 1;
  std::memcpy(result.text, text.data(), bytes);
  return result;
}

/// Arrow wraps every cause in IOError, so the AWS error name inside its text decides.
inline DatasetCode ClassifyError(const std::string& text) {
  const auto has_any = [&](std::initializer_list<const char*> words) {
    for (const char* word : words) {
      if (text.find(word) != std::string::npos) return true;
    }
    return false;
  };
  if (has_any({"NO_SUCH_BUCKET", "NoSuchBucket"})) return DatasetCode::kNoBucket;
  if (has_any({"ACCESS_DENIED", "AccessDenied", "SIGNATURE", "SignatureDoesNotMatch", "INVALID_ACCESS_KEY", "InvalidAccessKeyId",
               "INVALID_CLIENT_TOKEN_ID", "MISSING_AUTHENTICATION_TOKEN", "UNRECOGNIZED_CLIENT", "EXPIRED", "errno 13]",
               "errno 30]", "errno 1]"})) {
    return DatasetCode::kDenied;
  }
  if (has_any({"NETWORK_CONNECTION", "curlCode", "REQUEST_TIMEOUT", "SLOW_DOWN", "SERVICE_UNAVAILABLE", "THROTTLING",
               "INTERNAL_FAILURE"})) {
    return DatasetCode::kUnreachable;
  }
  return DatasetCode::kFailed;
}

inline DatasetResult FromArrow(const arrow::Status& status) {
  if (status.ok()) return {};
  return MakeResult(ClassifyError(status.message()), status.message());
}

/// Calls that are inside Arrow now. Not zero at exit only when the program left a hung request behind.
inline std::atomic<int> calls_inside{0};

struct InsideArrow {
  InsideArrow() { ++calls_inside; }
  ~InsideArrow() { --calls_inside; }
};

/// Runs `body` (returning arrow::Status) and turns whatever happens into a result.
template <typename Body>
DatasetResult Guarded(Body body) {
  const InsideArrow inside;
  try {
    return FromArrow(body());
  } catch (const std::exception& error) {
    return MakeResult(ClassifyError(error.what()), error.what());
  } catch (...) {
    return MakeResult(DatasetCode::kFailed, "unknown exception");
  }
}

}  // namespace stepscope
