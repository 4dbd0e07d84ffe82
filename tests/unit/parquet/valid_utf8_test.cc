// SPDX-License-Identifier: Apache-2.0
#include "storage/parquet/valid_utf8.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

constexpr const char* kReplaced = "\xEF\xBF\xBD";

TEST(ValidUtf8, KeepsValidText) {
  for (const char* text : {"", "step", "é", "数据", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF"}) EXPECT_EQ(ValidUtf8(text), text);
}

TEST(ValidUtf8, ReplacesBytesThatAreNoSequence) {
  EXPECT_EQ(ValidUtf8("a\xFFz"), std::string("a") + kReplaced + "z");
  EXPECT_EQ(ValidUtf8("\xC3"), kReplaced);                                                               // cut off
  EXPECT_EQ(ValidUtf8("\xC0\xAF"), std::string(kReplaced) + kReplaced);                                  // overlong
  EXPECT_EQ(ValidUtf8("\xED\xA0\x80"), std::string(kReplaced) + kReplaced + kReplaced);                  // surrogate
  EXPECT_EQ(ValidUtf8("\xF4\x90\x80\x80"), std::string(kReplaced) + kReplaced + kReplaced + kReplaced);  // beyond U+10FFFF
}

}  // namespace
}  // namespace stepscope
