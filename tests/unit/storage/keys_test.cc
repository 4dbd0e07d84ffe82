// SPDX-License-Identifier: Apache-2.0
// Keys: their bytes are a format (tests/golden/keys.txt), their byte order is the order of what they name.
#include "storage/keys.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <random>

namespace stepscope {
namespace {

std::string Hex(std::string_view bytes) {
  std::string hex;
  for (char byte : bytes) hex += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  return hex;
}

std::map<std::string, std::string> Keys() {
  const std::string session = "session-16-bytes";
  return {
      {"block", Hex(EncodeBlockKey({{7}, TableId::kSchedSlice, 3600, 2, 41}))},
      {"block_long", Hex(EncodeBlockKey({{7}, TableId::kSpan, kLongSlot, 0, 0}))},
      {"name", Hex(EncodeRunKey({7}, 258))},
      {"tile", Hex(EncodeTileKey({7}, 5, 3, 0x0102030405060708))},
      {"meta_run", Hex(EncodeMetaKey("run", RunMetaId({7})))},
      {"meta_entity", Hex(EncodeMetaKey(RunMetaKind("entity", {7}), RunMetaId({258})))},
      {"position", Hex(EncodePositionKey(session, 3))},
      {"session_name", Hex(EncodeSessionNameKey(session, 3, 9))},
  };
}

TEST(KeysTest, BytesAreThoseOfTheGoldenFile) {
  std::ifstream file(std::string(STEPSCOPE_GOLDEN_DIR) + "/keys.txt");
  std::map<std::string, std::string> golden;
  for (std::string name, hex; file >> name >> hex;) golden[name] = hex;
  EXPECT_EQ(Keys(), golden);
}

TEST(KeysTest, ByteOrderIsTheOrderOfBlockKeysAndDecodingReverses) {
  std::mt19937 random(5);
  std::vector<BlockKey> keys;
  for (int i = 0; i < 2000; ++i) {
    keys.push_back({{static_cast<uint32_t>(random() % 3)},
                    static_cast<TableId>(random() % 300),
                    static_cast<uint32_t>(random()),
                    static_cast<uint16_t>(random() % 2 * 255 + random() % 2),
                    static_cast<uint32_t>(random())});
  }
  std::vector<BlockKey> by_bytes = keys;
  std::sort(keys.begin(), keys.end());
  std::sort(by_bytes.begin(), by_bytes.end(),
            [](const BlockKey& a, const BlockKey& b) { return EncodeBlockKey(a) < EncodeBlockKey(b); });
  EXPECT_EQ(by_bytes, keys);
  for (const BlockKey& key : keys) EXPECT_EQ(DecodeBlockKey(EncodeBlockKey(key)), key);
  EXPECT_EQ(DecodeBlockKey("short"), std::nullopt);
}

TEST(KeysTest, ARowIsStoredInTheSecondItEndsOrInTheLongStripe) {
  EXPECT_EQ(SlotForRow({5 * kNsPerSecond}, kNsPerSecond - 1), 5u);
  EXPECT_EQ(SlotForRow({5 * kNsPerSecond}, kNsPerSecond), 6u);
  EXPECT_EQ(SlotForRow({0}, kLongRowNs), 10u);
  EXPECT_EQ(SlotForRow({0}, kLongRowNs + 1), kLongSlot);
  EXPECT_EQ(SlotForRow({std::numeric_limits<int64_t>::max()}, 1), kLongSlot);
  EXPECT_EQ(SlotOf({-1}), 0u);
  EXPECT_EQ(SlotOf({std::numeric_limits<int64_t>::max()}), kLongSlot - 1);
}

TEST(KeysTest, PrefixEndIsTheFirstKeyBehindThePrefix) {
  EXPECT_EQ(PrefixEnd("ab"), "ac");
  EXPECT_EQ(PrefixEnd("a\xFF\xFF"), "b");
  EXPECT_EQ(PrefixEnd("\xFF\xFF"), "");
}

}  // namespace
}  // namespace stepscope
