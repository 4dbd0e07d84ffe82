// SPDX-License-Identifier: Apache-2.0
#include "base/valid_utf8.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

constexpr char kMark[] = "\xEF\xBF\xBD";

TEST(ValidUtf8, LeavesGoodTextAlone) {
  for (const char* text : {"", "step", "épée", "日本", "\xF0\x9F\x98\x80", "\xEF\xBF\xBD"}) EXPECT_EQ(ValidUtf8(text), text);
}

TEST(ValidUtf8, MarksEachBadByte) {
  EXPECT_EQ(ValidUtf8("a\xFF"), std::string("a") + kMark);
  EXPECT_EQ(ValidUtf8("\xC3("), std::string(kMark) + "(");
  EXPECT_EQ(ValidUtf8("\xE2\x82"), std::string(kMark) + kMark) << "cut in the middle";
  EXPECT_EQ(ValidUtf8("\xC0\x80"), std::string(kMark) + kMark) << "overlong";
  EXPECT_EQ(ValidUtf8("\xED\xA0\x80"), std::string(kMark) + kMark + kMark) << "surrogate";
  EXPECT_EQ(ValidUtf8("\xF4\x90\x80\x80"), std::string(kMark) + kMark + kMark + kMark) << "above U+10FFFF";
}

}  // namespace
}  // namespace stepscope
