// SPDX-License-Identifier: Apache-2.0
#include "daemon/jobs/process_tree.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>

namespace stepscope {
namespace {

constexpr int kParentField = 4;
constexpr int kStartField = 22;

/// Fields of /proc/PID/stat behind the comm, which may hold spaces and parentheses: state is field 3.
std::vector<std::string_view> FieldsAfterComm(std::string_view text) {
  std::vector<std::string_view> fields;
  const size_t close = text.rfind(')');
  if (close == std::string_view::npos) return fields;
  text.remove_prefix(close + 1);
  while (!text.empty()) {
    const size_t begin = text.find_first_not_of(" \n");
    if (begin == std::string_view::npos) break;
    text.remove_prefix(begin);
    const size_t end = text.find_first_of(" \n");
    fields.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end);
  }
  return fields;
}

int64_t ToInt(std::string_view text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

struct StatLine {
  ProcStat stat;
  char state = '?';
};

absl::StatusOr<StatLine> ReadStatLine(Pid pid, const std::string& proc) {
  std::ifstream file(fmt::format("{}/{}/stat", proc, pid.value));
  std::stringstream text;
  text << file.rdbuf();
  const std::string line = text.str();
  const auto fields = FieldsAfterComm(line);
  if (fields.size() < kStartField - 2) return absl::NotFoundError(fmt::format("process {} is gone", pid.value));
  StatLine result;
  result.state = fields[0].front();
  result.stat.parent = Pid{static_cast<int32_t>(ToInt(fields[kParentField - 3]))};
  result.stat.process = {pid, ToInt(fields[kStartField - 3])};
  return result;
}

}  // namespace

absl::StatusOr<ProcStat> ReadProcStat(Pid pid, const std::string& proc) {
  auto line = ReadStatLine(pid, proc);
  if (!line.ok()) return line.status();
  return line->stat;
}

absl::StatusOr<int64_t> ReadStartTicks(Pid pid, const std::string& proc) {
  auto stat = ReadProcStat(pid, proc);
  if (!stat.ok()) return stat.status();
  return stat->process.start_ticks;
}

std::vector<ProcessKey> Ancestry(ProcessKey process, const std::string& proc) {
  constexpr size_t kDeepest = 128;
  std::vector<ProcessKey> chain{process};
  auto stat = ReadProcStat(process.pid, proc);
  while (stat.ok() && stat->parent.value > 1 && chain.size() < kDeepest) {
    stat = ReadProcStat(stat->parent, proc);
    if (stat.ok()) chain.push_back(stat->process);
  }
  return chain;
}

bool IsAlive(ProcessKey process, const std::string& proc) {
  auto line = ReadStatLine(process.pid, proc);
  return line.ok() && line->stat.process == process && line->state != 'Z' && line->state != 'X';
}

}  // namespace stepscope
