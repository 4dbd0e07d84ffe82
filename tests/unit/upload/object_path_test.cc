// SPDX-License-Identifier: Apache-2.0
#include "daemon/upload/object_path.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

UploadRun RunOf(const std::string& id) {
  UploadRun run;
  run.run = RunId{3};
  run.uid = 1000;
  run.kind = "slurm";
  run.id = id;
  run.attempt = 2;
  run.node = "node-1";
  run.boot_id = "boot";
  return run;
}

TEST(ObjectPath, EncodesWhatAPathCannotHold) {
  EXPECT_EQ(PercentEncode("a/b"), "a%2Fb");
  EXPECT_EQ(PercentEncode(".."), "%2E%2E");
  EXPECT_EQ(PercentEncode("a..b"), "a..b");
  EXPECT_EQ(PercentEncode("x=1&y%"), "x%3D1%26y%25");
  EXPECT_EQ(PercentEncode("é"), "%C3%A9");
}

TEST(ObjectPath, SaysJobAttemptNodeRunAndPart) {
  const ObjectPaths paths(RunOf("../../etc/passwd"));
  EXPECT_TRUE(paths.Table("span", 4).starts_with("v1/span/job=1000.slurm...%2F..%2Fetc%2Fpasswd/attempt=2/node-1-3."));
  EXPECT_TRUE(paths.Table("span", 4).ends_with("-4.parquet"));
  EXPECT_TRUE(paths.PartManifest(4).starts_with("v1/_jobs/job=1000.slurm...%2F..%2Fetc%2Fpasswd/attempt=2/parts/node-1-3."));
  EXPECT_TRUE(paths.ClosingManifest().ends_with(".json"));
}

TEST(ObjectPath, OfAWipedStoreDiffers) {
  UploadRun again = RunOf("7");
  again.start_wall = {1};
  EXPECT_NE(ObjectPaths(RunOf("7")).Table("span", 0), ObjectPaths(again).Table("span", 0));
}

}  // namespace
}  // namespace stepscope
