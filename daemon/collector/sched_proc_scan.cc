// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/sched_proc_scan.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <memory>

#include "base/unique_fd.h"

namespace stepscope {
namespace {

constexpr size_t kMaxFileBytes = 64 << 10;

std::string ReadFile(const std::string& path) {
  std::string text;
  unique_fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) return text;
  char chunk[4096];
  for (ssize_t n; text.size() < kMaxFileBytes && (n = read(fd.get(), chunk, sizeof(chunk))) > 0;) {
    text.append(chunk, static_cast<size_t>(n));
  }
  return text;
}

// Names of a directory that are numbers.
std::vector<int32_t> ReadIds(const std::string& path) {
  std::vector<int32_t> ids;
  std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.c_str()), &closedir);
  if (directory == nullptr) return ids;
  while (const dirent* entry = readdir(directory.get())) {
    std::string_view name(entry->d_name);
    int32_t id = 0;
    auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (error == std::errc() && end == name.data() + name.size()) ids.push_back(id);
  }
  return ids;
}

// The n-th (from 0) blank-separated word.
std::string_view Word(std::string_view text, size_t n) {
  for (;; --n) {
    size_t begin = text.find_first_not_of(" \n");
    if (begin == std::string_view::npos) return {};
    size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    if (n == 0) return text.substr(begin, end - begin);
    text.remove_prefix(end);
  }
}

template <typename Int>
bool ParseInt(std::string_view word, Int& value) {
  auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() && end == word.data() + word.size() && !word.empty();
}

// Last number of the line that begins with `key`; 0 if there is none.
int32_t LastNumber(std::string_view text, std::string_view key) {
  size_t begin = text.find(key);
  if (begin == std::string_view::npos) return 0;
  std::string_view line = text.substr(begin, text.find('\n', begin) - begin);
  size_t blank = line.find_last_of(" \t");
  int32_t value = 0;
  if (blank != std::string_view::npos) ParseInt(line.substr(blank + 1), value);
  return value;
}

}  // namespace

std::optional<ProcStat> ParseProcStat(std::string_view line) {
  size_t open = line.find('(');
  size_t close = line.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;
  ProcStat stat;
  stat.comm = line.substr(open + 1, close - open - 1);
  std::string_view rest = line.substr(close + 1);  // begins with field 3
  std::string_view state = Word(rest, 0);
  if (state.empty()) return std::nullopt;
  stat.state = state[0];
  bool ok = ParseInt(Word(line.substr(0, open), 0), stat.pid) && ParseInt(Word(rest, 1), stat.parent) &&
            ParseInt(Word(rest, 17), stat.threads) && ParseInt(Word(rest, 19), stat.start_ticks);
  if (!ok) return std::nullopt;
  return stat;
}

std::optional<ProcStat> ProcScan::Stat(int32_t pid) const {
  return ParseProcStat(ReadFile(fmt::format("{}/{}/stat", root_, pid)));
}

std::vector<int32_t> ProcScan::Threads(int32_t pid) const { return ReadIds(fmt::format("{}/{}/task", root_, pid)); }

std::string ProcScan::Comm(int32_t pid, int32_t tid) const {
  std::string comm = ReadFile(fmt::format("{}/{}/task/{}/comm", root_, pid, tid));
  if (!comm.empty() && comm.back() == '\n') comm.pop_back();
  return comm;
}

std::string ProcScan::Command(int32_t pid) const {
  std::string command = ReadFile(fmt::format("{}/{}/cmdline", root_, pid));
  while (!command.empty() && command.back() == '\0') command.pop_back();
  for (char& c : command) {
    if (c == '\0') c = ' ';
  }
  return command;
}

InnerIds ProcScan::Inner(int32_t pid, int32_t tid) const {
  std::string status = ReadFile(fmt::format("{}/{}/task/{}/status", root_, pid, tid));
  InnerIds ids{LastNumber(status, "NSpid:"), LastNumber(status, "NStgid:"), 0};
  struct stat link{};
  if (::stat(fmt::format("{}/{}/ns/pid", root_, pid).c_str(), &link) == 0) ids.pid_namespace = static_cast<uint32_t>(link.st_ino);
  return ids;
}

std::vector<ProcStat> ProcScan::All() const {
  std::vector<ProcStat> all;
  for (int32_t pid : ReadIds(root_)) {
    if (std::optional<ProcStat> stat = Stat(pid)) all.push_back(*std::move(stat));
  }
  return all;
}

}  // namespace stepscope
