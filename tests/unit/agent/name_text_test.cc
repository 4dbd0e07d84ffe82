// SPDX-License-Identifier: Apache-2.0
#include "agent/core/name_text.h"

#include <gtest/gtest.h>

#include <string>

#include "agent/core/name_table.h"

namespace stepscope::agent {
namespace {

std::string Repair(const std::string& text) {
  std::string out(4 * text.size() + 8, '\0');
  out.resize(RepairUtf8(text.data(), text.size(), out.data(), out.size()).bytes);
  return out;
}

struct Split {
  std::string base;
  bool has_number;
  int64_t number;
  bool operator==(const Split&) const = default;
};

Split SplitOf(const std::string& text) {
  SplitNumber split = SplitTrailingNumber(text.data(), text.size());
  return {text.substr(0, split.base_bytes), split.has_number, split.number};
}

std::string Made(const std::string& base) {
  NameText name;
  MakeNameText(base.data(), base.size(), &name);
  return std::string(name.text, name.bytes);
}

TEST(NameText, SplitsATrailingNumberAfterEachSeparator) {
  for (const char* text : {"step_12", "step-12", "step:12", "step#12", "step/12", "step.12", "step 12", "step[12]", "step(12)"}) {
    EXPECT_EQ(SplitOf(text), (Split{"step", true, 12})) << text;
  }
  EXPECT_EQ(SplitOf("step_0"), (Split{"step", true, 0}));
  EXPECT_EQ(SplitOf("n_999999999999999999"), (Split{"n", true, 999999999999999999}));
}

TEST(NameText, KeepsWhatIsNotANumber) {
  for (const char* text : {"step", "step12", "step_012", "n_1234567890123456789", "_12", "12", "", "step[12", "step12]", "step_",
                           "a_00", "step{12}", "[1]"}) {
    EXPECT_EQ(SplitOf(text), (Split{text, false, 0})) << text;
  }
}

TEST(NameText, KeepsValidUtf8AndReplacesTheRest) {
  EXPECT_EQ(Repair("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z"), "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z");
  EXPECT_EQ(Repair("a\xFF"
                   "b"),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(Repair("\xC0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD");                  // overlong
  EXPECT_EQ(Repair("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // surrogate
  EXPECT_EQ(Repair("x\xE2\x82"), "x\xEF\xBF\xBD\xEF\xBF\xBD");                // cut short
}

TEST(NameText, CutsAMegabyteWithAHashSuffixAndKeepsDifferentOnesApart) {
  std::string one(1 << 20, 'x');
  std::string two = one;
  two.back() = 'y';
  EXPECT_EQ(Made(one).size(), STEPSCOPE_NAME_MAX_BYTES);
  EXPECT_NE(Made(one), Made(two));
  EXPECT_EQ(Made(one), Made(one));
  EXPECT_EQ(Made(std::string(4096, 'x')), std::string(4096, 'x'));
}

TEST(NameText, NeverCutsACharacterInTwo) {
  std::string text;
  while (text.size() < 5000) text += "\xE2\x82\xAC";
  std::string made = Made(text);
  EXPECT_EQ(Repair(made), made);
  EXPECT_LE(made.size(), STEPSCOPE_NAME_MAX_BYTES);
}

TEST(NameTable, GivesOneIdPerTextAndDomain) {
  NameTable table;
  uint32_t step = table.Intern("step", 4, 0);
  EXPECT_EQ(table.Intern("step", 4, 0), step);
  EXPECT_NE(table.Intern("step", 4, 1), step);
  EXPECT_NE(table.Intern("stop", 4, 0), step);
  EXPECT_GT(step, STEPSCOPE_NAME_OTHER);
  ASSERT_NE(table.Find(step), nullptr);
  EXPECT_EQ(std::string(table.Find(step)->text, table.Find(step)->bytes), "step");
  EXPECT_EQ(table.Find(60000), nullptr);
  EXPECT_EQ(table.Find(0xFFFFFFFF), nullptr);
}

TEST(NameTable, AnswersOtherWhenIdsAreUsedUp) {
  NameTable table;
  uint32_t last = 0;
  for (int i = 0; i < 70000; ++i) {
    std::string text = "name" + std::to_string(i);
    last = table.Intern(text.data(), text.size(), 0);
  }
  EXPECT_EQ(last, STEPSCOPE_NAME_OTHER);
  EXPECT_EQ(std::string(table.Find(last)->text), "(other)");
  EXPECT_NE(table.Intern("name7", 5, 0), STEPSCOPE_NAME_OTHER) << "known names keep their ids";
}

}  // namespace
}  // namespace stepscope::agent
