// SPDX-License-Identifier: Apache-2.0
#include "daemon/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

namespace stepscope {
namespace {

using testing::HasSubstr;

const GetEnv kNoEnv = [](const char*) -> const char* { return nullptr; };

std::string WriteConfig(const std::string& text) {
  const std::string path =
      testing::TempDir() + "stepscoped-" + testing::UnitTest::GetInstance()->current_test_info()->name() + ".toml";
  std::ofstream(path) << text;
  return path;
}

TEST(ConfigTest, FileThenEnvironmentThenFlags) {
  const std::string path = WriteConfig("[store]\npath = \"/a\"\n[sched]\nring_bytes = 4096\n[upload]\nurl = \"s3://x\"\n");
  const GetEnv env = [](const char* name) { return std::string_view(name) == "STEPSCOPED_STORE_PATH" ? "/b" : nullptr; };
  const auto config = LoadConfig(path, env, {"upload.url=s3://y", "sched.mode=off"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->store_path, "/b");
  EXPECT_EQ(config->sched_ring_bytes, 4096);
  EXPECT_EQ(config->upload_url, "s3://y");
  EXPECT_EQ(config->sched_mode, "off");
}

TEST(ConfigTest, AnUnknownKeyNamesTheNearestOne) {
  const auto config = LoadConfig(WriteConfig("[upload]\nurll = \"s3://x\"\n"), kNoEnv, {});
  EXPECT_THAT(std::string(config.status().message()), HasSubstr("did you mean \"upload.url\""));
  EXPECT_FALSE(LoadConfig("", kNoEnv, {"sched.ringbytes=1"}).ok());
}

TEST(ConfigTest, WrongTypesAndBrokenFilesAreRefusedWithTheirPlace) {
  EXPECT_FALSE(LoadConfig(WriteConfig("[sched]\nmode = \"yes\"\n"), kNoEnv, {}).ok());
  EXPECT_FALSE(LoadConfig("", kNoEnv, {"sched.ring_bytes=-1"}).ok());
  EXPECT_FALSE(LoadConfig("", kNoEnv, {"sched.ring_bytes"}).ok());
  const auto broken = LoadConfig(WriteConfig("[sched\n"), kNoEnv, {});
  EXPECT_THAT(std::string(broken.status().message()), HasSubstr(":1:"));
  for (const char* text : {"\n[ = x", "\n[[]]", "\n  [ ]"}) {
    EXPECT_THAT(std::string(LoadConfig(WriteConfig(text), kNoEnv, {}).status().message()),
                HasSubstr(":2: a table without a name"));
  }
  EXPECT_THAT(std::string(LoadConfig("/proc", kNoEnv, {}).status().message()), HasSubstr("cannot be read"));
  EXPECT_THAT(std::string(LoadConfig("/no/such.toml", kNoEnv, {}).status().message()), HasSubstr("--print-config"));
}

TEST(ConfigTest, APeriodIsOneOfThoseThereAre) {
  EXPECT_EQ(LoadConfig("", kNoEnv, {"counters.period_ms=5000"})->counters_period_ms, 5000);
  const auto odd = LoadConfig("", kNoEnv, {"counters.period_ms=250"});
  EXPECT_THAT(std::string(odd.status().message()), HasSubstr("counters.period_ms = \"250\" is not one of the values it takes"));
  EXPECT_THAT(std::string(odd.status().message()), HasSubstr("100, 200, 500, 1000, 5000 or 60000"));
  EXPECT_FALSE(LoadConfig(WriteConfig("[host]\nperiod_ms = 0\n"), kNoEnv, {}).ok());
}

TEST(ConfigTest, TooSmallANumberIsRefusedWithTheLeast) {
  EXPECT_EQ(LoadConfig("", kNoEnv, {"retain.max_bytes=67108864"})->retain_max_bytes, 64 << 20);
  const auto small = LoadConfig(WriteConfig("[retain]\nmax_bytes = 67108863\n"), kNoEnv, {});
  EXPECT_THAT(std::string(small.status().message()),
              HasSubstr("retain.max_bytes = \"67108863\" is not a whole number >= 67108864"));
  EXPECT_FALSE(LoadConfig("", kNoEnv, {"retain.normal_step_every=0"}).ok());
  EXPECT_EQ(LoadConfig("", kNoEnv, {"retain.raw_minutes=0"})->retain_raw_minutes, 0);
}

TEST(ConfigTest, TheShippedReferenceIsTheTableAndLoads) {
  std::ifstream file(std::string(STEPSCOPE_SOURCE_DIR) + "/deploy/stepscoped.toml");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), ConfigReference());
  EXPECT_TRUE(LoadConfig(WriteConfig(ConfigReference()), kNoEnv, {}).ok());
}

}  // namespace
}  // namespace stepscope
