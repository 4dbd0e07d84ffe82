// SPDX-License-Identifier: Apache-2.0
// A procfs tree in a temporary directory: processes with parents, users, cgroups and environments that the test chooses.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "daemon/jobs/job_table.h"
#include "tests/unit/storage/temp_dir.h"

namespace stepscope {

struct FakeProcess {
  int32_t pid = 0;
  int32_t parent = 1;
  uint32_t uid = 1000;
  std::string cgroup = "0::/user.slice/user-1000.slice/session-3.scope\n";
  std::vector<std::string> environment = {};
  uint32_t flags = 0x400000;
  int64_t start_ticks = 0;  ///< 0 = made from the pid
  std::string name = "python";
};

class FakeProc {
 public:
  std::string root() const { return dir_.path(); }

  ProcessKey Add(const FakeProcess& process) {
    const std::string folder = fmt::format("{}/{}", root(), process.pid);
    std::filesystem::create_directories(folder);
    const int64_t start_ticks = process.start_ticks != 0 ? process.start_ticks : 1000 + process.pid;
    Write(folder + "/stat", fmt::format("{} (python) S {} 1 1 0 -1 {} 1 2 3 4 5 6 7 8 20 0 1 0 {} 1000 10\n", process.pid,
                                        process.parent, process.flags, start_ticks));
    Write(folder + "/status", fmt::format("Name:\t{1}\nUid:\t{0}\t{0}\t{0}\t{0}\n", process.uid, process.name));
    Write(folder + "/cgroup", process.cgroup);
    std::string environment;
    for (const std::string& entry : process.environment) environment += entry + '\0';
    Write(folder + "/environ", environment);
    return {Pid{process.pid}, start_ticks};
  }
  void Remove(int32_t pid) { std::filesystem::remove_all(fmt::format("{}/{}", root(), pid)); }

 private:
  static void Write(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::trunc) << text; }

  TempDir dir_;
};

}  // namespace stepscope
