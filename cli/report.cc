// SPDX-License-Identifier: Apache-2.0
// `stepscope report [JOB] [--format text|json]`: where the time of a job went.
#include "cli/report.h"

#include <cstdio>

#include "cli/command.h"
#include "cli/connect.h"

namespace stepscope::cli {
namespace {

int PrintReport(const Globals& globals, const std::string& job, const std::string& format) {
  auto connection = Connection::Open(globals);
  if (!connection.ok()) return Fail(connection.status());
  v1::GetSummaryRequest summary_request;
  summary_request.set_job(job);
  auto summary = Call((*connection)->query(), &v1::QueryService::Stub::GetSummary, summary_request);
  if (!summary.ok()) return Fail(summary.status());
  Report report{*summary, {}};
  if (format == "json") {
    v1::ListStepsRequest steps_request;
    steps_request.set_job(job);
    steps_request.set_all_ranks(true);
    steps_request.set_limit(50'000);
    auto steps = Call((*connection)->query(), &v1::QueryService::Stub::ListSteps, steps_request);
    if (!steps.ok()) return Fail(steps.status());
    report.steps = *steps;
  }
  fputs((format == "json" ? RenderJson(report) : RenderText(report)).c_str(), stdout);
  return kOk;
}

}  // namespace

void AddReport(CLI::App& app, const Globals& globals, int* exit_code) {
  auto* command = app.add_subcommand("report", "Where the time of a job went");
  auto job = std::make_shared<std::string>("last");
  auto format = std::make_shared<std::string>("text");
  command->add_option("job", *job, "name, id or last")->capture_default_str();
  command->add_option("--format", *format, "text, or json (stepscope.report.v1)")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command->add_flag_callback("--json", [format] { *format = "json"; }, "same as --format json");
  command->callback([&globals, job, format, exit_code] { *exit_code = PrintReport(globals, *job, *format); });
}

}  // namespace stepscope::cli
