// SPDX-License-Identifier: Apache-2.0
#include "base/proc_stat.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "base/unique_fd.h"

namespace stepscope {
namespace {

// The n-th (from 0) blank-separated word.
std::string_view Word(std::string_view text, size_t n) {
  for (;; --n) {
    const size_t begin = text.find_first_not_of(" \t\n");
    if (begin == std::string_view::npos) return {};
    const size_t end = std::min(text.find_first_of(" \t\n", begin), text.size());
    if (n == 0) return text.substr(begin, end - begin);
    text.remove_prefix(end);
  }
}

template <typename Int>
bool ParseInt(std::string_view word, Int& value) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() && end == word.data() + word.size() && !word.empty();
}

}  // namespace

std::optional<ProcStat> ParseProcStat(std::string_view line) {
  const size_t open = line.find('(');
  const size_t close = line.rfind(')');  // the comm may hold parentheses and blanks
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;
  const std::string_view behind = line.substr(close + 1);
  const auto field = [behind](size_t number) { return Word(behind, number - 3); };  // as proc_pid_stat(5) numbers them
  ProcStat stat;
  stat.comm = line.substr(open + 1, close - open - 1);
  const std::string_view state = field(3);
  int64_t user_ticks = 0, system_ticks = 0;
  uint32_t flags = 0;
  const bool whole = !state.empty() && ParseInt(Word(line.substr(0, open), 0), stat.pid.value) &&
                     ParseInt(field(4), stat.parent.value) && ParseInt(field(9), flags) && ParseInt(field(14), user_ticks) &&
                     ParseInt(field(15), system_ticks) && ParseInt(field(20), stat.threads) &&
                     ParseInt(field(22), stat.start_ticks);
  if (!whole) return std::nullopt;
  stat.state = state[0];
  constexpr uint32_t kExiting = 0x4;  // PF_EXITING of the kernel's sched.h
  stat.is_exiting = (flags & kExiting) != 0;
  stat.cpu_ticks = user_ticks + system_ticks;
  return stat;
}

bool HasEnded(const ProcStat& stat) { return (stat.state == 'Z' || stat.state == 'X') && stat.threads <= 1; }

std::optional<ProcStat> ReadProcStat(Pid pid, const std::string& proc) {
  return ParseProcStat(ReadProcFile(fmt::format("{}/{}/stat", proc, pid.value)));
}

std::optional<uint32_t> ReadProcUid(Pid pid, const std::string& proc) {
  const std::string status = ReadProcFile(fmt::format("{}/{}/status", proc, pid.value));
  // Whole lines: the first holds the name the process gave itself, which may read like another line.
  const size_t at = status.find("\nUid:");
  uint32_t uid = 0;
  if (at == std::string::npos || !ParseInt(Word(std::string_view(status).substr(at + 5), 1), uid)) return std::nullopt;
  return uid;
}

std::string ReadProcFile(const std::string& path, size_t most_bytes) {
  std::string text;
  const unique_fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) return text;
  char chunk[4096];
  while (text.size() < most_bytes) {
    const ssize_t got = read(fd.get(), chunk, sizeof(chunk));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(chunk, static_cast<size_t>(got));
  }
  return text;
}

}  // namespace stepscope
