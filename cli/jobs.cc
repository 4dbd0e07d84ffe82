// SPDX-License-Identifier: Apache-2.0
// `stepscope jobs`, `status`, `end`, `delete`, and the bare command's state.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <iostream>

#include "cli/command.h"
#include "cli/connect.h"
#include "cli/text_table.h"

namespace stepscope::cli {
namespace {

std::string WallText(int64_t wall_ns) {
  if (wall_ns == 0) return "-";
  const time_t seconds = static_cast<time_t>(wall_ns / 1'000'000'000);
  tm local{};
  localtime_r(&seconds, &local);
  char text[32];
  strftime(text, sizeof(text), "%F %T", &local);
  return text;
}

int64_t RowsOf(const v1::Job& job) {
  int64_t rows = 0;
  for (const auto& table : job.tables()) rows += static_cast<int64_t>(table.rows());
  return rows;
}

std::string LossText(const v1::Job& job) {
  if (job.loss().empty()) return "0";
  int64_t lost = 0;
  for (const auto& loss : job.loss()) {
    if (loss.count() < 0) return "unknown";
    lost += loss.count();
  }
  return Count(lost);
}

std::string JobsTable(const v1::ListJobsResponse& answer) {
  TextTable table({"JOB", ">RUNS", "STATE", "STARTED", ">TIME", ">RANKS", ">ROWS", ">LOST"});
  for (const auto& job : answer.jobs()) {
    table.Add({job.name(), Count(job.runs_size()), job.state(), WallText(job.start_wall_ns()), Duration(job.dur_ns()),
               Count(job.ranks_size()), Count(RowsOf(job)), LossText(job)});
  }
  return table.Render();
}

int Jobs(const Globals& globals, bool json) {
  auto connection = Connection::Open(globals);
  if (!connection.ok()) return Fail(connection.status());
  const auto answer = Call((*connection)->query(), &v1::QueryService::Stub::ListJobs, v1::ListJobsRequest());
  if (!answer.ok()) return Fail(answer.status());
  if (json) return PrintJson(*answer);
  if (answer->jobs().empty()) {
    printf("no job recorded yet; start one with: stepscope %srun -- CMD\n", (*connection)->hint().c_str());
    return kOk;
  }
  printf("%s", JobsTable(*answer).c_str());
  return kOk;
}

void PrintNode(const v1::Node& node) {
  printf("node %s (%u CPUs, kernel %s), stepscoped %s pid %d, %s\n", node.hostname().c_str(), node.cpus(), node.kernel().c_str(),
         node.version().c_str(), node.pid(), node.mode().c_str());
  printf("  up %s, CPU %s, memory %s, store %s in %s\n", Duration(node.uptime_ns()).c_str(), Duration(node.cpu_ns()).c_str(),
         Bytes(node.rss_bytes()).c_str(), Bytes(node.store_bytes()).c_str(), node.data_dir().c_str());
  printf("  gRPC %s, HTTP %s, agents %s (%u connected)\n", node.grpc_address().c_str(), node.http_address().c_str(),
         node.agent_socket().c_str(), node.sessions());
  TextTable table({"COLLECTOR", "STATE", "LEVEL", "DETAIL"});
  for (const auto& collector : node.collectors()) {
    std::string detail = collector.reason();
    for (const auto& [key, value] : collector.numbers()) detail += fmt::format("{}{} {}", detail.empty() ? "" : ", ", key, value);
    table.Add({collector.name(), collector.state(), collector.level(), detail});
  }
  printf("%s", table.Render().c_str());
}

int Status(const Globals& globals, bool json) {
  auto connection = Connection::Open(globals);
  if (!connection.ok()) return Fail(connection.status());
  const auto node = Call((*connection)->query(), &v1::QueryService::Stub::GetNode, v1::GetNodeRequest());
  if (!node.ok()) return Fail(node.status());
  if (json) return PrintJson(*node);
  PrintNode(*node);
  return kOk;
}

int End(const Globals& globals, const std::string& job) {
  auto connection = Connection::Open(globals);
  if (!connection.ok()) return Fail(connection.status());
  v1::EndJobRequest request;
  request.set_job(job);
  const auto ended = Call((*connection)->control(), &v1::ControlService::Stub::EndJob, request);
  if (!ended.ok()) return Fail(ended.status());
  printf("job %s is %s: %s\n", Printable(ended->name()).c_str(), ended->state().c_str(),
         Printable(ended->state_reason()).c_str());
  return kOk;
}

int Delete(const Globals& globals, const std::string& job, bool yes) {
  if (!yes) {
    if (isatty(STDIN_FILENO) == 0) return Fail(absl::FailedPreconditionError("delete needs --yes when nobody can be asked"));
    printf("delete job %s and all its rows on this node? [y/N] ", job.c_str());
    std::string answer;
    std::getline(std::cin, answer);
    if (answer != "y" && answer != "yes") return kFailed;
  }
  auto connection = Connection::Open(globals);
  if (!connection.ok()) return Fail(connection.status());
  v1::DeleteJobRequest request;
  request.set_job(job);
  const auto deleted = Call((*connection)->control(), &v1::ControlService::Stub::DeleteJob, request, 120'000);
  if (!deleted.ok()) return Fail(deleted.status());
  printf("deleted job %s, freed %s\n", job.c_str(), Bytes(deleted->freed_bytes()).c_str());
  return kOk;
}

}  // namespace

int PrintState(const Globals& globals) {
  auto connection = Connection::Open(globals);
  if (!connection.ok()) return Fail(connection.status());
  const auto node = Call((*connection)->query(), &v1::QueryService::Stub::GetNode, v1::GetNodeRequest());
  const auto jobs = Call((*connection)->query(), &v1::QueryService::Stub::ListJobs, v1::ListJobsRequest());
  if (!node.ok()) return Fail(node.status());
  if (!jobs.ok()) return Fail(jobs.status());
  const char* hint = (*connection)->hint().c_str();
  printf("stepscope %s on %s: %s, %d jobs recorded, %u running\n", node->version().c_str(), node->hostname().c_str(),
         (*connection)->started_here() ? "no daemon is running" : "daemon answers", jobs->jobs_size(), node->running_jobs());
  for (const auto& collector : node->collectors()) {
    if (!collector.reason().empty()) printf("  %s: %s\n", collector.name().c_str(), collector.reason().c_str());
  }
  if (jobs->jobs().empty()) {
    printf("next: stepscope %srun -- python train.py\n", hint);
  } else if (node->running_jobs() > 0) {
    printf("next: stepscope %stop\n", hint);
  } else {
    printf("next: stepscope %sreport %s\n", hint, Printable(jobs->jobs(0).name()).c_str());
  }
  return kOk;
}

void AddJobs(CLI::App& app, const Globals& globals, int* exit_code) {
  auto* command = app.add_subcommand("jobs", "List recorded jobs, newest first");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "print JSON");
  command->callback([&globals, json, exit_code] { *exit_code = Jobs(globals, *json); });
}

void AddStatus(CLI::App& app, const Globals& globals, int* exit_code) {
  auto* command = app.add_subcommand("status", "What this node is and how its collectors are doing");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "print JSON");
  command->callback([&globals, json, exit_code] { *exit_code = Status(globals, *json); });
}

void AddEnd(CLI::App& app, const Globals& globals, int* exit_code) {
  auto* command = app.add_subcommand("end", "End a job now instead of after its quiet time");
  auto job = std::make_shared<std::string>("last");
  command->add_option("job", *job, "name, id or last")->capture_default_str();
  command->callback([&globals, job, exit_code] { *exit_code = End(globals, *job); });
}

void AddDelete(CLI::App& app, const Globals& globals, int* exit_code) {
  auto* command = app.add_subcommand("delete", "Delete an ended job's rows from this node (not from S3)");
  auto job = std::make_shared<std::string>();
  auto yes = std::make_shared<bool>(false);
  command->add_option("job", *job, "name or id")->required();
  command->add_flag("--yes", *yes, "do not ask");
  command->callback([&globals, job, yes, exit_code] { *exit_code = Delete(globals, *job, *yes); });
}

}  // namespace stepscope::cli
