// SPDX-License-Identifier: Apache-2.0
// `stepscope doctor`: what works on this node, what does not, why, and what to change. `stepscope daemon`: runs stepscoped.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/status.h"
#include "cli/bundle.h"
#include "cli/command.h"
#include "cli/connect.h"

namespace stepscope::cli {
namespace {

/// Whether something here needs to be changed for more. What is not on this node, or what the machine does not have, does not.
bool IsWell(const v1::CollectorState& collector) {
  if (collector.state() == "absent") return true;
  if (collector.state() == "off" || collector.state() == "unavailable") return false;
  return collector.reason().empty() || collector.level() == "full";
}

/// A level that works but is not the highest is neither.
const char* MarkOf(const v1::CollectorState& collector) {
  if (collector.state() == "absent") return "–";
  if (collector.state() != "on" && collector.state() != "idle") return "✗";
  return collector.reason().empty() ? "✓" : "~";
}

void PrintCollector(const v1::CollectorState& collector) {
  printf("%s %-10s %s, level %s\n", MarkOf(collector), collector.name().c_str(), collector.state().c_str(),
         collector.level().c_str());
  const auto line = [](const char* what, const std::string& text) {
    if (!text.empty()) printf("             %s %s\n", what, text.c_str());
  };
  line("works:", collector.works());
  line("lacks:", collector.lacks());
  line("because:", collector.reason());
  line("→", collector.next_step());
}

void PrintLine(bool ok, const std::string& name, const std::string& found, const std::string& next_step) {
  printf("%s %-10s %s\n", ok ? "✓" : "✗", name.c_str(), found.c_str());
  if (!ok && !next_step.empty()) printf("             → %s\n", next_step.c_str());
}

int Doctor(const Globals& globals, bool json) {
  auto connection = Connection::Open(globals);
  if (!connection.ok()) return Fail(connection.status());
  const auto doctor = Call((*connection)->control(), &v1::ControlService::Stub::GetDoctor, v1::GetDoctorRequest());
  if (!doctor.ok()) return Fail(doctor.status());
  if (json) return PrintJson(*doctor);
  bool all_ok = true;
  for (const auto& collector : doctor->collectors()) {
    all_ok &= IsWell(collector);
    PrintCollector(collector);
  }
  for (const auto& check : doctor->checks()) {
    all_ok &= check.ok();
    PrintLine(check.ok(), check.name(), check.found(), check.next_step());
  }
  return all_ok ? kOk : kFailed;
}

int RunDaemon(const std::vector<std::string>& arguments) {
  std::string program = FindBundle().daemon;
  std::vector<std::string> words = arguments;
  std::vector<char*> argv{program.data()};
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  return Fail(ErrnoStatus(errno, fmt::format("start {}", program), "build or install stepscoped beside stepscope"));
}

}  // namespace

void AddDoctor(CLI::App& app, const Globals& globals, int* exit_code) {
  auto* command = app.add_subcommand("doctor", "Say what works here, what does not, why, and what to change");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "print JSON");
  command->callback([&globals, json, exit_code] { *exit_code = Doctor(globals, *json); });
}

void AddDaemon(CLI::App& app, const Globals&, int* exit_code) {
  auto* command = app.add_subcommand("daemon", "Run stepscoped in the foreground; arguments are passed on");
  command->prefix_command();
  command->callback([command, exit_code] { *exit_code = RunDaemon(command->remaining()); });
}

}  // namespace stepscope::cli
