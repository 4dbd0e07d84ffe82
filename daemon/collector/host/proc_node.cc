// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/proc_node.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/proc_stat.h"
#include "base/time.h"
#include "daemon/collector/host/text_columns.h"

namespace stepscope {
namespace {

// Some hundred bytes a line; a node with thousands of interfaces or disks is read up to here.
constexpr size_t kMostBytes = 1 << 20;
constexpr uint64_t kSectorBytes =
    512;  // of /proc/diskstats, whatever the disk's own sectors are (Documentation/admin-guide/iostats)

struct MemoryMetric {
  std::string_view key;
  const char* name;
};
constexpr MemoryMetric kMemory[] = {
    {"MemTotal:", "mem.total_bytes"},         {"MemFree:", "mem.free_bytes"},
    {"MemAvailable:", "mem.available_bytes"}, {"Buffers:", "mem.buffers_bytes"},
    {"Cached:", "mem.cached_bytes"},          {"Dirty:", "mem.dirty_bytes"},
    {"Writeback:", "mem.writeback_bytes"},    {"AnonPages:", "mem.anonymous_bytes"},
    {"Shmem:", "mem.shared_bytes"},           {"Slab:", "mem.slab_bytes"},
    {"SwapTotal:", "mem.swap_total_bytes"},   {"SwapFree:", "mem.swap_free_bytes"},
    {"HugePages_Total:", "mem.huge_pages"},   {"HugePages_Free:", "mem.huge_pages_free"},
};

// Column numbers behind the name, from 0.
struct ColumnMetric {
  size_t column;
  const char* name;
  uint64_t unit;
};
constexpr ColumnMetric kDisk[] = {
    {0, "disk.reads_total", 1},  {2, "disk.read_bytes_total", kSectorBytes},    {3, "disk.read_ns_total", kNsPerMillisecond},
    {4, "disk.writes_total", 1}, {6, "disk.written_bytes_total", kSectorBytes}, {7, "disk.write_ns_total", kNsPerMillisecond},
    {8, "disk.in_flight", 1},    {9, "disk.busy_ns_total", kNsPerMillisecond},  {10, "disk.queue_ns_total", kNsPerMillisecond},
};
constexpr ColumnMetric kNetwork[] = {
    {0, "net.received_bytes_total", 1}, {1, "net.received_packets_total", 1}, {2, "net.received_errors_total", 1},
    {3, "net.received_drops_total", 1}, {8, "net.sent_bytes_total", 1},       {9, "net.sent_packets_total", 1},
    {10, "net.sent_errors_total", 1},   {11, "net.sent_drops_total", 1},
};
constexpr size_t kDiskColumns = 11;  // kernel 4.18 and 5.5 added more behind them
constexpr size_t kNetworkColumns = 16;

constexpr std::string_view kNoDisk[] = {"loop", "ram", "zram", "sr", "fd"};
constexpr std::string_view kNoPort[] = {"veth", "docker", "br-",     "virbr", "cni", "cali",
                                        "lxc",  "tunl",   "flannel", "tap",   "ifb", "dummy"};

bool IsNumbered(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) && name.find_first_not_of("0123456789", prefix.size()) == std::string_view::npos;
}

bool IsKeptDisk(std::string_view name, const std::string& sys_block) {
  if (std::ranges::any_of(kNoDisk, [name](std::string_view prefix) { return IsNumbered(name, prefix); })) return false;
  if (access(sys_block.c_str(), X_OK) != 0) return true;
  std::string entry(name);
  std::ranges::replace(entry, '/', '!');  // as sysfs writes the disk cciss/c0d0
  return access(fmt::format("{}/{}", sys_block, entry).c_str(), F_OK) == 0;
}

bool IsKeptPort(std::string_view name) {
  return std::ranges::none_of(kNoPort, [name](std::string_view prefix) { return name.starts_with(prefix); });
}

template <size_t kCount>
void AddColumns(const ColumnMetric (&metrics)[kCount], std::string_view instance, size_t columns, std::string_view line,
                MetricSink* sink) {
  std::vector<uint64_t> values;
  while (values.size() < columns) {
    const auto value = ParseCount(TakeWord(line));
    if (!value) return;
    values.push_back(*value);
  }
  for (const ColumnMetric& metric : metrics) {
    const double value = static_cast<double>(values[metric.column]) * static_cast<double>(metric.unit);
    sink->Add({.name = metric.name, .instance = instance, .value = value});
  }
}

void AddMemory(std::string_view text, MetricSink* sink) {
  while (auto line = TakeLine(text)) {
    const std::string_view key = TakeWord(*line);
    const auto found = std::ranges::find(kMemory, key, &MemoryMetric::key);
    const auto count = ParseCount(TakeWord(*line));
    if (found == std::end(kMemory) || !count) continue;
    const double unit = TakeWord(*line) == "kB" ? 1024 : 1;
    sink->Add({.name = found->name, .value = static_cast<double>(*count) * unit});
  }
}

void AddDisks(std::string_view text, const std::string& sys_block, MetricSink* sink) {
  while (auto line = TakeLine(text)) {
    TakeWord(*line);  // major
    TakeWord(*line);  // minor
    const std::string_view name = TakeWord(*line);
    if (!name.empty() && IsKeptDisk(name, sys_block)) AddColumns(kDisk, name, kDiskColumns, *line, sink);
  }
}

void AddNetwork(std::string_view text, MetricSink* sink) {
  while (auto line = TakeLine(text)) {
    const size_t colon = line->rfind(':');  // an alias is called eth0:1
    if (colon == std::string_view::npos) continue;
    std::string_view before = line->substr(0, colon);
    const std::string_view name = TakeWord(before);
    if (!name.empty() && IsKeptPort(name)) AddColumns(kNetwork, name, kNetworkColumns, line->substr(colon + 1), sink);
  }
}

}  // namespace

ProcNode::ProcNode(Options options) : options_(std::move(options)) { SetState("idle"); }

void ProcNode::SetState(const char* when_readable) {
  std::vector<std::string> missing;
  for (const char* file : {"/proc/meminfo", "/proc/diskstats", "/proc/net/dev"}) {
    const std::string path = options_.root + file;
    if (access(path.c_str(), R_OK) != 0) missing.push_back(path);
  }
  if (missing.empty()) return state_.Set({"node", "full", when_readable, "", "", {}});
  const std::string reason = fmt::format("cannot read {}", fmt::join(missing, ", "));
  const bool has_none = missing.size() == 3;
  state_.Set({"node",
              has_none ? "none" : "own",
              has_none ? "unavailable" : when_readable,
              reason,
              "mount the host's procfs where the daemon runs; containers may hide single files of it",
              {}});
}

void ProcNode::Sample(std::span<const ProcessKey>, MetricSink* sink) {
  const std::string proc = options_.root + "/proc";
  AddMemory(ReadProcFile(proc + "/meminfo", kMostBytes), sink);
  AddDisks(ReadProcFile(proc + "/diskstats", kMostBytes), options_.root + "/sys/block", sink);
  const std::string of_node = ReadProcFile(proc + "/1/net/dev", kMostBytes);
  AddNetwork(of_node.empty() ? ReadProcFile(proc + "/net/dev", kMostBytes) : of_node, sink);
}

}  // namespace stepscope
