// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/sched_proc_scan.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <charconv>
#include <memory>

namespace stepscope {
namespace {

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

// Last number of the line that begins with `key`; 0 if there is none. Never the first line: that is the name the thread gave
// itself, which may read like another.
int32_t LastNumber(std::string_view text, std::string_view key) {
  size_t begin = text.find(fmt::format("\n{}", key));
  if (begin == std::string_view::npos) return 0;
  ++begin;
  std::string_view line = text.substr(begin, text.find('\n', begin) - begin);
  size_t blank = line.find_last_of(" \t");
  int32_t value = 0;
  if (blank != std::string_view::npos) std::from_chars(line.data() + blank + 1, line.data() + line.size(), value);
  return value;
}

}  // namespace

std::optional<ProcStat> ProcScan::Stat(int32_t pid) const { return ReadProcStat(Pid{pid}, root_); }

std::optional<ProcStat> ProcScan::ThreadStat(int32_t pid, int32_t tid) const {
  return ReadProcStat(Pid{tid}, fmt::format("{}/{}/task", root_, pid));
}

std::optional<uint32_t> ProcScan::Uid(int32_t pid) const { return ReadProcUid(Pid{pid}, root_); }

std::vector<int32_t> ProcScan::Threads(int32_t pid) const {
  const std::string tasks = fmt::format("{}/{}/task", root_, pid);
  std::vector<int32_t> tids = ReadIds(tasks);
  const std::optional<ProcStat> main_thread = ReadProcStat(Pid{pid}, tasks);
  if (main_thread && (main_thread->state == 'Z' || main_thread->state == 'X')) std::erase(tids, pid);
  return tids;
}

std::optional<std::string> ProcScan::Comm(int32_t pid, int32_t tid) const {
  std::string comm = ReadProcFile(fmt::format("{}/{}/task/{}/comm", root_, pid, tid));
  if (comm.empty()) return std::nullopt;
  if (comm.back() == '\n') comm.pop_back();
  return comm;
}

std::string ProcScan::Command(int32_t pid) const {
  std::string command = ReadProcFile(fmt::format("{}/{}/cmdline", root_, pid));
  while (!command.empty() && command.back() == '\0') command.pop_back();
  for (char& c : command) {
    if (c == '\0') c = ' ';
  }
  return command;
}

InnerIds ProcScan::Inner(int32_t pid, int32_t tid) const {
  std::string status = ReadProcFile(fmt::format("{}/{}/task/{}/status", root_, pid, tid));
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
