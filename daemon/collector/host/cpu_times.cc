// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/cpu_times.h"

#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "base/proc_stat.h"
#include "base/time.h"
#include "daemon/collector/host/text_columns.h"

namespace stepscope {
namespace {

// A node with 256 CPUs and thousands of interrupt lines writes about 100 KiB.
constexpr size_t kMostStatBytes = 1 << 20;

enum StatColumn : size_t { kUser, kNice, kSystem, kIdle, kIowait, kIrq, kSoftirq, kSteal, kStatColumns };

struct TimeMetric {
  const char* name;
  StatColumn column;
};
constexpr TimeMetric kTimes[] = {
    {"cpu.user_ns_total", kUser},     {"cpu.system_ns_total", kSystem}, {"cpu.idle_ns_total", kIdle},
    {"cpu.iowait_ns_total", kIowait}, {"cpu.irq_ns_total", kIrq},       {"cpu.softirq_ns_total", kSoftirq},
    {"cpu.steal_ns_total", kSteal},
};

struct CountMetric {
  std::string_view key;
  const char* name;
};
constexpr CountMetric kCounts[] = {
    {"ctxt", "cpu.context_switches_total"},
    {"processes", "cpu.forks_total"},
    {"procs_running", "cpu.runnable_tasks"},
    {"procs_blocked", "cpu.blocked_tasks"},
};

uint64_t TakeNumber(std::string_view& line) {
  const std::string_view word = TakeWord(line);
  uint64_t number = 0;
  std::from_chars(word.data(), word.data() + word.size(), number);
  return number;
}

void AddTimes(std::string_view instance, std::string_view line, double ns_per_tick, MetricSink* sink) {
  uint64_t ticks[kStatColumns];
  for (uint64_t& column : ticks) column = TakeNumber(line);
  ticks[kUser] += ticks[kNice];  // user time at low priority is user time
  for (const TimeMetric& time : kTimes) {
    sink->Add({.name = time.name, .instance = instance, .value = static_cast<double>(ticks[time.column]) * ns_per_tick});
  }
}

void AddLine(std::string_view line, double ns_per_tick, MetricSink* sink) {
  const std::string_view key = TakeWord(line);
  if (key.starts_with("cpu")) return AddTimes(key == "cpu" ? std::string_view() : key, line, ns_per_tick, sink);
  for (const CountMetric& count : kCounts) {
    if (key == count.key) sink->Add({.name = count.name, .value = static_cast<double>(TakeNumber(line))});
  }
}

}  // namespace

CpuTimes::CpuTimes(Options options)
    : options_(std::move(options)), ns_per_tick_(static_cast<double>(kNsPerSecond) / static_cast<double>(sysconf(_SC_CLK_TCK))) {
  SetState("idle");
}

void CpuTimes::SetState(const char* when_readable) {
  const std::string path = options_.root + "/proc/stat";
  if (access(path.c_str(), R_OK) == 0) return state_.Set({"cpu", "full", when_readable, "", "", {}});
  state_.Set({"cpu", "none", "unavailable", path + " cannot be read", "mount procfs where the daemon runs", {}});
}

void CpuTimes::Sample(std::span<const ProcessKey>, MetricSink* sink) {
  const std::string text = ReadProcFile(options_.root + "/proc/stat", kMostStatBytes);
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    AddLine(line, ns_per_tick_, sink);
  }
}

}  // namespace stepscope
