// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/report.h"
#include "sample_report.h"

namespace stepscope::cli {
namespace {

using nlohmann::json;

json Parsed(const Report& report) { return json::parse(RenderJson(report)); }

json Schema() { return json::parse(std::ifstream(REPORT_SCHEMA)); }

TEST(ReportJsonTest, NamesItsSchemaFirst) {
  EXPECT_EQ(RenderJson(TwoRanks()).find("{\n  \"schema\": \"stepscope.report.v1\""), 0u);
}

TEST(ReportJsonTest, CpuTotalsAreTheSumsOverProcesses) {
  const json cpus = Parsed(TwoRanks()).at("cpus");
  EXPECT_EQ(cpus.at("running_ns"), 3'005'000'000);
  EXPECT_EQ(cpus.at("runnable_ns"), 42'000'000);
  EXPECT_EQ(cpus.at("slices"), 1'011);
  ASSERT_EQ(cpus.at("processes").size(), 3u);
  EXPECT_EQ(cpus.at("processes")[2].at("role"), "launcher");
  EXPECT_EQ(cpus.at("processes")[2].at("rank"), -1);
}

TEST(ReportJsonTest, SumsBeyond32BitsStayExact) {
  Report report;
  AddProcess(&report.summary, 1, 0, "rank", (int64_t{1} << 53) + 1, 0, 1);
  AddProcess(&report.summary, 2, 1, "rank", 1, 0, 1);
  EXPECT_EQ(Parsed(report).at("cpus").at("running_ns").get<int64_t>(), (int64_t{1} << 53) + 2);
}

TEST(ReportJsonTest, AThreadCarriesTheKernelsBooksAndItsHoles) {
  const json thread = Parsed(TwoRanks()).at("threads")[0];
  EXPECT_EQ(thread.at("exec_ns"), 1'900'000'001);
  EXPECT_EQ(thread.at("rq_wait_ns"), 4'501);
  EXPECT_EQ(thread.at("seq_holes"), 5);
}

TEST(ReportJsonTest, WaitsCarryTheirPeersWhereThereAreAny) {
  Report report = TwoRanks();
  v1::ThreadSummary* thread = report.summary.mutable_threads(0);
  SetPeer(AddWait(thread, "gil", "futex", 30, "blocked")->mutable_root(), 100, 110, "rival", "clock_nanosleep");
  AddWait(thread, "sleep", "nanosleep", 20, "timer");
  const json waits = Parsed(report).at("threads")[0].at("waits");
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(waits[0].at("root").at("doing"), "clock_nanosleep");
  EXPECT_EQ(waits[0].at("timeouts"), 8);
  EXPECT_EQ(waits[1].at("ns"), 20);
  EXPECT_FALSE(waits[1].contains("peer"));
}

TEST(ReportJsonTest, SpansHaveAMean) {
  Report report = TwoRanks();
  AddSpan(&report.summary, "never", 0, 0);
  const json spans = Parsed(report).at("spans");
  EXPECT_EQ(spans[0].at("mean_ns"), 2'500'000);
  EXPECT_EQ(spans[1].at("mean_ns"), 0);
}

TEST(ReportJsonTest, StepsAreListedOneByOne) {
  Report report = TwoRanks();
  report.steps.set_cut(true);
  const json parsed = Parsed(report);
  ASSERT_EQ(parsed.at("steps").size(), 1u);
  EXPECT_EQ(parsed.at("steps")[0].at("number"), 7);
  EXPECT_EQ(parsed.at("steps_cut"), true);
}

TEST(ReportJsonTest, LossIsEmptyOrSaysWhereWhyAndHowMuch) {
  Report report = TwoRanks();
  EXPECT_EQ(Parsed(report).at("loss"), json::array());
  AddLoss(&report.summary, "kernel", -1);
  EXPECT_EQ(Parsed(report).at("loss")[0],
            json({{"stage", "kernel"}, {"reason", "ring full"}, {"table", "span"}, {"count", -1}, {"bytes", -1}}));
}

TEST(ReportJsonTest, BytesThatAreNotUtf8AreReplaced) {
  Report report = TwoRanks();
  AddThread(&report.summary, 5, "bad\xFF name", 1);
  AddSpan(&report.summary, "cut \xC3", 1, 1);
  const json parsed = Parsed(report);
  EXPECT_EQ(parsed.at("threads")[1].at("name"), "bad\uFFFD name");
  EXPECT_EQ(parsed.at("spans")[1].at("name"), "cut \uFFFD");
}

TEST(ReportJsonTest, QuotesAndLineEndsInNamesAreEscaped) {
  Report report = TwoRanks();
  report.summary.mutable_job()->set_command("python -c 'print(\"a\\n\")'\n");
  EXPECT_EQ(Parsed(report).at("job").at("command"), "python -c 'print(\"a\\n\")'\n");
}

TEST(ReportJsonTest, AnEmptySummaryHasEveryRequiredField) {
  const json parsed = Parsed(Report());
  for (const auto& field : Schema().at("required")) EXPECT_TRUE(parsed.contains(field)) << field;
  for (const char* list : {"devices", "kernels", "threads", "steps", "spans", "loss", "findings"})
    EXPECT_EQ(parsed.at(list), json::array());
}

/// The part of the schema that speaks of one value; a reference is looked up in $defs.
json Resolved(const json& root, const json& schema) {
  return schema.contains("$ref") ? root.at(json::json_pointer(schema["$ref"].get<std::string>().substr(1))) : schema;
}

/// Every field of `value` that the schema does not describe, by path.
void FindUndescribed(const json& root, const json& given, const json& value, const std::string& path,
                     std::vector<std::string>* found) {
  const json schema = Resolved(root, given);
  if (value.is_array()) {
    for (const json& item : value) FindUndescribed(root, schema.value("items", json::object()), item, path + "[]", found);
  }
  if (!value.is_object()) return;
  const json properties = schema.value("properties", json::object());
  const json others = schema.value("additionalProperties", json());
  for (const auto& [key, item] : value.items()) {
    if (properties.contains(key)) {
      FindUndescribed(root, properties[key], item, path + "." + key, found);
    } else if (!others.is_object()) {
      found->push_back(path + "." + key);
    }
  }
}

TEST(ReportJsonTest, EveryFieldPrintedIsDescribedInTheSchema) {
  Report report = TwoRanks();
  AddLoss(&report.summary, "agent", 3);
  SetPeer(AddWait(report.summary.mutable_threads(0), "gil", "futex", 30, "blocked")->mutable_peer(), 100, 110, "rival");
  std::vector<std::string> undescribed;
  const json schema = Schema();
  FindUndescribed(schema, schema, Parsed(report), "", &undescribed);
  EXPECT_THAT(undescribed, testing::IsEmpty());
}

}  // namespace
}  // namespace stepscope::cli
