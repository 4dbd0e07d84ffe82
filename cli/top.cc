// SPDX-License-Identifier: Apache-2.0
// `stepscope top`: WatchUtilization as a table, redrawn each second on a terminal, printed line by line elsewhere.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "cli/command.h"
#include "cli/connect.h"
#include "cli/text_table.h"

namespace stepscope::cli {
namespace {

struct TopOptions {
  std::string job;
  bool once = false;
  bool json = false;
};

std::string LossNote(const v1::JobUtilization& job) {
  if (job.loss().empty()) return "loss 0";
  std::string note = "loss:";
  for (const auto& loss : job.loss())
    note += fmt::format(" {} {} {} ({})", Count(loss.count()), loss.table(), loss.stage(), loss.reason());
  return note;
}

std::string Render(const v1::Utilization& update) {
  std::string text;
  if (update.jobs().empty()) text += "no job is running\n";
  for (const auto& job : update.jobs()) {
    text += fmt::format("job {} ({}), {}\n", Printable(job.name()), job.state(), LossNote(job));
    TextTable table(
        {">RANK", ">PID", ">RUNNING", ">RUNNABLE", ">SLEEPING", ">CPUS", ">STEPS/S", ">LAST STEP", ">ITS TIME", "NOTE"});
    for (const auto& rank : job.ranks()) {
      table.Add({rank.rank() < 0 ? "-" : std::to_string(rank.rank()), std::to_string(rank.pid()), Percent(rank.running()),
                 Percent(rank.runnable()), Percent(rank.sleeping()), fmt::format("{:.2f}", rank.cpus()),
                 fmt::format("{:.2f}", rank.steps_per_second()), rank.last_step() < 0 ? "-" : std::to_string(rank.last_step()),
                 rank.last_step() < 0 ? "-" : Duration(rank.last_step_ns()), rank.state()});
    }
    text += table.Render();
    for (const auto& device : job.devices()) text += fmt::format("  {} {}\n", device.device(), Percent(device.busy()));
    if (!job.devices_note().empty()) text += fmt::format("  devices: {}\n", job.devices_note());
  }
  return text;
}

int Top(const Globals& globals, const TopOptions& options) {
  auto connection = Connection::Open(globals);
  if (!connection.ok()) return Fail(connection.status());
  grpc::ClientContext context;
  v1::WatchUtilizationRequest request;
  request.set_job(options.job);
  request.set_max_updates(options.once ? 1 : 0);
  const auto stream = (*connection)->query().WatchUtilization(&context, request);
  const bool redraw = isatty(STDOUT_FILENO) != 0 && !options.once && !options.json;
  v1::Utilization update;
  while (stream->Read(&update)) {
    if (options.json) {
      PrintJson(update);
    } else {
      printf("%s%s", redraw ? "\033[H\033[J" : "", Render(update).c_str());
    }
    fflush(stdout);
  }
  const grpc::Status status = stream->Finish();
  if (status.ok()) return kOk;
  return Fail(absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message()));
}

}  // namespace

void AddTop(CLI::App& app, const Globals& globals, int* exit_code) {
  auto* command = app.add_subcommand("top", "Watch what each rank is doing, once a second");
  auto options = std::make_shared<TopOptions>();
  command->add_option("--job", options->job, "name or id (default: all running jobs)");
  command->add_flag("--once", options->once, "print one update and exit");
  command->add_flag("--json", options->json, "print JSON");
  command->callback([&globals, options, exit_code] { *exit_code = Top(globals, *options); });
}

}  // namespace stepscope::cli
