// SPDX-License-Identifier: Apache-2.0
#include "daemon/live/listen_address.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

TEST(ListenAddress, TakesLoopbackInEverySpelling) {
  EXPECT_EQ(ParseLoopback("127.0.0.1:7461", "x")->Text(), "127.0.0.1:7461");
  EXPECT_EQ(ParseLoopback("localhost:0", "x")->Text(), "127.0.0.1:0");
  EXPECT_EQ(ParseLoopback("[::1]:80", "x")->Text(), "[::1]:80");
  EXPECT_EQ(ParseLoopback("127.9.9.9:1", "x")->port, 1);
}

TEST(ListenAddress, RefusesWhatOthersCanReach) {
  for (const char* text : {"0.0.0.0:1", "10.0.0.1:1", "[::]:1", "node7:1", "[::ffff:1.2.3.4]:1"}) {
    EXPECT_EQ(ParseLoopback(text, "x").status().code(), absl::StatusCode::kFailedPrecondition) << text;
  }
}

TEST(ListenAddress, RefusesWhatIsNoAddress) {
  for (const char* text : {"", ":", "127.0.0.1", "127.0.0.1:", ":7461", "127.0.0.1:x", "127.0.0.1:70000", "127.0.0.1:1 "}) {
    EXPECT_EQ(ParseLoopback(text, "x").status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace stepscope
