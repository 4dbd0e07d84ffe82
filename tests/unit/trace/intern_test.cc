// SPDX-License-Identifier: Apache-2.0
#include "trace/intern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <thread>

namespace stepscope {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(NameTableTest, TheSameTextHasTheSameIdAndIsNewOnce) {
  NameTable table;
  const NameId forward = table.Intern("forward"), backward = table.Intern("backward");
  EXPECT_NE(forward, backward);
  EXPECT_EQ(table.Intern("forward"), forward);
  EXPECT_EQ(table.Intern(""), NameId{0});
  EXPECT_EQ(table.Text(backward), "backward");
  EXPECT_EQ(table.Text({12345}), "");
  const auto taken = table.TakeNew();
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].id, forward);
  EXPECT_EQ(taken[0].text, "forward");
  EXPECT_THAT(table.TakeNew(), IsEmpty());
}

TEST(NameTableTest, ALoadedTableContinuesWhereItStopped) {
  NameTable table;
  table.Load({9}, "nine");
  table.Load({2}, "two");
  table.Load({2}, "damaged second row");
  table.Load({0xFFFFFFFF}, "damaged id");
  EXPECT_THAT(table.TakeNew(), IsEmpty());
  EXPECT_EQ(table.Intern("nine"), NameId{9});
  EXPECT_EQ(table.Intern("two"), NameId{2});
  EXPECT_EQ(table.Intern("ten"), NameId{10});
}

TEST(NameTableTest, BeyondTheCapNamesBecomeOtherAndAreCounted) {
  NameTable table(/*max_names=*/4);
  EXPECT_THAT(table.InternAll({"a", "b", "c", "d", "a"}),
              ElementsAre(NameId{2}, NameId{3}, kOtherNameId, kOtherNameId, NameId{2}));
  EXPECT_EQ(table.refused(), 2u);
  EXPECT_EQ(table.Text(kOtherNameId), kOtherName);
  const auto taken = table.TakeNew();
  ASSERT_EQ(taken.size(), 3u);
  EXPECT_EQ(taken[2].text, kOtherName);
}

TEST(NameTableTest, AUserNameThatReadsOtherIsTheOtherName) {
  NameTable table;
  EXPECT_EQ(table.Intern(kOtherName), kOtherNameId);
  EXPECT_EQ(table.Intern(kOtherName), kOtherNameId);
  EXPECT_EQ(table.refused(), 0u);
  EXPECT_EQ(table.TakeNew().size(), 1u);
}

TEST(NameTableTest, LongNamesAreCutWithAHashSoTheyStayDifferent) {
  const std::string common(5000, 'x');
  const std::string a = CutName(common + "a"), b = CutName(common + "b");
  EXPECT_EQ(a.size(), kMaxNameBytes);
  EXPECT_NE(a, b);
  EXPECT_EQ(a.substr(0, 4000), b.substr(0, 4000));
  EXPECT_EQ(CutName(std::string(kMaxNameBytes, 'x')), std::string(kMaxNameBytes, 'x'));
  NameTable table;
  EXPECT_EQ(table.Intern(common + "a"), table.Intern(a));
  EXPECT_NE(table.Intern(common + "a"), table.Intern(common + "b"));
}

TEST(NameTableTest, ACutNeverSplitsACharacter) {
  std::string text;
  while (text.size() < 5000) text += "\u20AC";  // three bytes
  const std::string cut = CutName(text);
  EXPECT_EQ((cut.size() - 17) % 3, 0u);
  EXPECT_LE(cut.size(), kMaxNameBytes);
}

TEST(NameTableTest, ThreadsAgreeOnIds) {
  NameTable table;
  std::vector<std::vector<NameId>> ids(4);
  std::vector<std::thread> threads;
  for (auto& mine : ids) {
    threads.emplace_back([&table, &mine] {
      for (int i = 0; i < 1000; ++i) mine.push_back(table.Intern("name " + std::to_string(i)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : ids) EXPECT_EQ(mine, ids[0]);
  EXPECT_EQ(table.TakeNew().size(), 1000u);
}

EntityKey Thread(int64_t tid) { return {.kind = EntityKind::kThread, .a = 100, .b = 5555, .c = tid, .text = ""}; }

TEST(EntityTableTest, KeysGetIdsAndDescriptionsMakeThemNewAgain) {
  EntityTable table;
  const EntityId first = table.Intern(Thread(101)), second = table.Intern(Thread(102));
  EXPECT_EQ(first, EntityId{1});
  EXPECT_EQ(table.Intern(Thread(101)), first);
  EXPECT_EQ(table.TakeNew().size(), 2u);
  table.Describe(second, {.display = "pt_autograd_0", .inner_ids = {17}});
  table.Describe(second, {.display = "pt_autograd_0", .inner_ids = {17}});
  table.Describe({99}, {.display = "nobody", .inner_ids = {}});
  const auto taken = table.TakeNew();
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].first, second);
  EXPECT_EQ(taken[0].second.attributes.display, "pt_autograd_0");
  table.Describe(second, {.display = "pt_autograd_0", .inner_ids = {17}});
  EXPECT_THAT(table.TakeNew(), IsEmpty());
}

TEST(EntityTableTest, ALoadedTableContinuesWhereItStopped) {
  EntityTable table;
  table.Load({3}, {Thread(101), {.display = "python", .inner_ids = {}}});
  table.Load({0xFFFFFFFF}, {Thread(999), {}});
  EXPECT_EQ(table.Intern(Thread(101)), EntityId{3});
  EXPECT_EQ(table.Intern(Thread(102)), EntityId{4});
  EXPECT_EQ(table.Find({3}).attributes.display, "python");
  EXPECT_EQ(table.TakeNew().size(), 1u);
}

TEST(EntityTest, BytesRoundTripAndUnknownFieldsAreSkipped) {
  const Entity entity{
      {.kind = EntityKind::kMetric, .a = -5, .b = std::numeric_limits<int64_t>::min(), .c = 0, .text = "gpu\0util"},
      {.display = "python", .inner_ids = {12, -1, 1}, .gil = {0x7F00'0000'1000, 0x7F00'0000'10D0}}};
  std::string bytes = EncodeEntity(entity);
  EXPECT_EQ(*DecodeEntity(bytes), entity);
  bytes += std::string("\x78\x01\x82\x01\x02hi", 7);  // fields 15 (varint) and 16 (bytes) of a later release
  EXPECT_EQ(*DecodeEntity(bytes), entity);
  EXPECT_FALSE(DecodeEntity(bytes.substr(0, bytes.size() - 1)).ok());
  EXPECT_FALSE(DecodeEntity("\x0B").ok());
}

TEST(EntityTest, MetaIdsAreInIdOrder) {
  EXPECT_LT(EntityMetaId({255}), EntityMetaId({256}));
  EXPECT_EQ(EntityOfMetaId(EntityMetaId({0x01020304})), EntityId{0x01020304});
  EXPECT_EQ(EntityOfMetaId("abc"), EntityId{0});
}

}  // namespace
}  // namespace stepscope
