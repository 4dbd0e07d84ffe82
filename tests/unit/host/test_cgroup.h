// SPDX-License-Identifier: Apache-2.0
// A cgroup of a test's own in the hierarchy that has the cpu controller (v1 or v2), and what the kernel says of it.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "daemon/collector/host/cgroup_tree.h"

namespace stepscope {

class TestCgroup {
 public:
  explicit TestCgroup(std::string_view name) : path_(fmt::format("/stepscope_test_{}_{}", getpid(), name)) {
    const CgroupMounts mounts = ReadCgroupMounts("");
    is_v1_ = mounts.v1_cpu.has_value();
    if (!is_v1_ && !mounts.v2) {
      why_ = "no cgroups here";
      return;
    }
    top_ = (is_v1_ ? mounts.v1_cpu : mounts.v2)->point;
    std::error_code error;
    if (!std::filesystem::create_directory(top_ + path_, error)) why_ = "cannot make a cgroup: " + error.message();
  }
  TestCgroup(const TestCgroup&) = delete;
  TestCgroup& operator=(const TestCgroup&) = delete;
  /// What is in it goes up.
  ~TestCgroup() {
    std::ifstream inside(top_ + path_ + "/cgroup.procs");
    for (std::string pid; inside >> pid;) WriteTo(top_ + "/cgroup.procs", pid);
    Remove();
  }

  /// As /proc/PID/cgroup names it.
  const std::string& path() const { return path_; }
  /// Why there is none, or not one of this kind; empty = all is well.
  const std::string& why() const { return why_; }
  /// Of each tenth of a second it may have `quota` of CPU time.
  std::string LimitCpu(std::chrono::microseconds quota) {
    if (!why_.empty()) return why_;
    const std::string us = std::to_string(quota.count());
    const bool is_limited =
        is_v1_ ? Write("cpu.cfs_period_us", "100000") && Write("cpu.cfs_quota_us", us) : Write("cpu.max", us + " 100000");
    if (!is_limited) why_ = "the cpu controller is not on here";
    return why_;
  }
  /// `pid` with all its threads; 0 = the caller.
  bool Take(pid_t pid) const { return Write("cgroup.procs", std::to_string(pid)); }
  /// False while something is in it.
  bool Remove() const { return !top_.empty() && rmdir((top_ + path_).c_str()) == 0; }

  int64_t ThrottledNs() const {
    if (const int64_t us = Stat("throttled_usec"); us >= 0) return us * 1000;
    return Stat("throttled_time");
  }
  int64_t ThrottledPeriods() const { return Stat("nr_throttled"); }

 private:
  static bool WriteTo(const std::string& file, std::string_view text) {
    std::ofstream out(file);
    out << text << std::flush;
    return out.good();
  }
  bool Write(const char* name, std::string_view text) const { return WriteTo(fmt::format("{}{}/{}", top_, path_, name), text); }
  /// -1 = cpu.stat has no such line.
  int64_t Stat(std::string_view wanted) const {
    std::ifstream file(top_ + path_ + "/cpu.stat");
    std::string key;
    for (int64_t number = 0; file >> key >> number;) {
      if (key == wanted) return number;
    }
    return -1;
  }

  const std::string path_;
  std::string top_;
  std::string why_;
  bool is_v1_ = false;
};

}  // namespace stepscope
