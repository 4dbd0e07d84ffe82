// SPDX-License-Identifier: Apache-2.0
#include "daemon/upload/json_text.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

TEST(JsonText, WritesNestedValues) {
  JsonText json;
  json.BeginObject()
      .Int("n", INT64_MAX)
      .BeginArray("list")
      .BeginObject()
      .EndObject()
      .BeginObject()
      .Text("a", "b")
      .EndObject()
      .EndArray();
  json.BeginObject("empty").EndObject().EndObject();
  EXPECT_EQ(json.text(), R"({"n":9223372036854775807,"list":[{},{"a":"b"}],"empty":{}})");
}

TEST(JsonText, EscapesWhatUsersWrite) {
  JsonText json;
  json.BeginObject().Text("job\n", "a\"b\\c\x01\xFF").EndObject();
  EXPECT_EQ(json.text(), "{\"job\\u000a\":\"a\\\"b\\\\c\\u0001\xEF\xBF\xBD\"}");
}

}  // namespace
}  // namespace stepscope
