// SPDX-License-Identifier: Apache-2.0
#include "daemon/disk_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace stepscope {
namespace {

TEST(DiskRoomTest, TheLimitIsWhatTheUserSays) {
  EXPECT_TRUE(HasRoom(testing::TempDir(), 1).ok());
  const absl::Status full = HasRoom(testing::TempDir(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), testing::HasSubstr("less than store.min_free_bytes (9223372036.855 GB)"));
}

TEST(DiskRoomTest, APlaceThatCannotBeAskedHasRoomUntilAWriteFails) { EXPECT_TRUE(HasRoom("/no/such/place", 1).ok()); }

}  // namespace
}  // namespace stepscope
