// SPDX-License-Identifier: Apache-2.0
// What a person reads when an upload cannot start. Reading back what was written is tests/e2e/test_upload_s3.py.
#include "storage/parquet/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepscope {
namespace {

using ::testing::HasSubstr;

absl::Status OpenStatus(const std::string& url, const std::string& endpoint = "") {
  DatasetOptions options;
  options.url = url;
  options.endpoint = endpoint;
  options.module_path = "/nonexistent/stepscope_dataset.so";
  return Dataset::Open(options).status();
}

TEST(Dataset, NamesAMissingModule) {
  const absl::Status status = OpenStatus("file:///tmp/x");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("upload needs lib/stepscope_dataset.so"));
}

TEST(Dataset, RefusesUrlsThatCannotBeMeant) {
  for (const char* url : {"", "s3://", "bucket/x", "http://x/y", "file://relative"}) {
    const absl::Status status = OpenStatus(url);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << url;
    EXPECT_THAT(std::string(status.message()), HasSubstr("upload.url")) << url;
  }
}

TEST(Dataset, SendsNothingUnencryptedToAnotherMachine) {
  EXPECT_EQ(OpenStatus("s3://b/p", "http://10.0.0.5:9000").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenStatus("s3://b/p", "http://localhost.evil.example").code(), absl::StatusCode::kInvalidArgument);
  for (const char* endpoint :
       {"http://127.0.0.1:9444", "http://localhost:9000/", "http://[::1]:9", "https://s3.example.com", ""}) {
    EXPECT_EQ(OpenStatus("s3://b/p", endpoint).code(), absl::StatusCode::kNotFound) << endpoint;  // the module, not the endpoint
  }
}

TEST(Dataset, AsksForAnEndpointWithAName) {
  EXPECT_EQ(OpenStatus("s3://b/p", "ftp://x").code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace stepscope
