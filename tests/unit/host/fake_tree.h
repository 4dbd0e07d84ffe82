// SPDX-License-Identifier: Apache-2.0
// A root directory with a /proc and /sys of the test's making, and a MetricSink that keeps what it is told.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/collector/host/metric_source.h"
#include "tests/unit/storage/temp_dir.h"

namespace stepscope {

class FakeTree {
 public:
  const std::string& root() const { return dir_.path(); }

  void Write(const std::string& path, std::string_view text) const {
    const std::filesystem::path file = root() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void Remove(const std::string& path) const { std::filesystem::remove_all(root() + path); }

  /// A process whose /proc/PID/cgroup holds `cgroups`.
  ProcessKey AddProcess(int32_t pid, std::string_view cgroups, int64_t start_ticks = 500) const {
    const std::string folder = fmt::format("/proc/{}", pid);
    Write(folder + "/stat",
          fmt::format("{} (python) S 1 {} {} 0 -1 0 0 0 0 0 7 3 0 0 20 0 4 0 {} 0 0\n", pid, pid, pid, start_ticks));
    Write(folder + "/cgroup", cgroups);
    return {Pid{pid}, start_ticks};
  }

 private:
  TempDir dir_;
};

struct KeptValue {
  double value = 0;
  bool scaled = false;
  ProcessKey process;
  std::vector<ProcessKey> members;
};

class KeptValues final : public MetricSink {
 public:
  void Add(const MetricValue& value) override {
    values_[{std::string(value.name), std::string(value.instance)}] = {
        value.value, value.scaled, value.process, {value.members.begin(), value.members.end()}};
  }
  bool Has(const std::string& name, const std::string& instance = "") const { return values_.contains({name, instance}); }
  /// Fails the test when it was not told.
  const KeptValue& Of(const std::string& name, const std::string& instance = "") const { return values_.at({name, instance}); }
  double operator()(const std::string& name, const std::string& instance = "") const { return Of(name, instance).value; }
  size_t size() const { return values_.size(); }

 private:
  std::map<std::pair<std::string, std::string>, KeptValue> values_;
};

/// What one Sample says.
inline KeptValues SampleOf(MetricSource& source, std::vector<ProcessKey> processes = {}) {
  KeptValues values;
  source.Sample(processes, &values);
  return values;
}

}  // namespace stepscope
