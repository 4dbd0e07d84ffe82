// SPDX-License-Identifier: Apache-2.0
#include "daemon/live/process_clock.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace stepscope {
namespace {

/// Fields of /proc/PID/stat behind the command, which may hold spaces and parentheses: field n of proc(5) is fields[n - 3].
constexpr size_t kParentField = 4 - 3;
constexpr size_t kUserField = 14 - 3;
constexpr size_t kSystemField = 15 - 3;
constexpr size_t kStartField = 22 - 3;

std::string ReadWhole(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

std::optional<ProcessClock::Stat> ProcessClock::ReadStat(ProcessKey process) const {
  const std::string text = ReadWhole(fmt::format("{}/{}/stat", proc_, process.pid.value));
  const size_t command_end = text.rfind(')');
  if (command_end == std::string::npos) return std::nullopt;
  std::istringstream rest(text.substr(command_end + 1));
  std::string state;
  rest >> state;
  int64_t fields[kStartField + 1] = {};
  for (size_t i = 1; i <= kStartField; ++i) {
    if (!(rest >> fields[i])) return std::nullopt;
  }
  if (fields[kStartField] != process.start_ticks) return std::nullopt;
  return Stat{fields[kParentField], fields[kUserField] + fields[kSystemField], fields[kStartField]};
}

std::optional<SchedStat> ProcessClock::MainThread(ProcessKey process) const {
  if (!ReadStat(process)) return std::nullopt;
  std::istringstream text(ReadWhole(fmt::format("{0}/{1}/task/{1}/schedstat", proc_, process.pid.value)));
  SchedStat stat;
  if (!(text >> stat.running_ns >> stat.runnable_ns)) return std::nullopt;
  return stat;
}

std::optional<int64_t> ProcessClock::CpuNs(ProcessKey process) const {
  const auto stat = ReadStat(process);
  if (!stat) return std::nullopt;
  return stat->cpu_ticks * (kNsPerSecond / sysconf(_SC_CLK_TCK));
}

std::optional<Pid> ProcessClock::Parent(ProcessKey process) const {
  const auto stat = ReadStat(process);
  if (!stat) return std::nullopt;
  return Pid{static_cast<int32_t>(stat->parent)};
}

std::string ProcessClock::SchedStatProblem() const {
  const std::string path = proc_ + "/self/schedstat";
  if (access(path.c_str(), R_OK) == 0) return "";
  return fmt::format("unknown: {} is not readable; run a kernel with CONFIG_SCHED_INFO", path);
}

}  // namespace stepscope
