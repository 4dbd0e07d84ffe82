// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/cpu_topology.h"

#include <fmt/format.h>

#include "base/proc_stat.h"
#include "daemon/collector/host/cpu_list.h"

namespace stepscope {
namespace {

constexpr char kNodes[] = "/sys/devices/system/node";

std::vector<int> Nodes(const std::string& root) { return ParseCpuList(ReadProcFile(root + kNodes + "/online")); }

}  // namespace

CollectorState CpuTopology::State() const {
  const size_t nodes = Nodes(root_).size();
  return {"numa", "full", "idle", "", "", {{"nodes", std::to_string(nodes)}}};
}

void CpuTopology::Sample(std::span<const ProcessKey>, MetricSink* sink) {
  for (const int node : Nodes(root_)) {
    for (const int cpu : ParseCpuList(ReadProcFile(fmt::format("{}{}/node{}/cpulist", root_, kNodes, node)))) {
      sink->Add({.name = "cpu.numa_node", .instance = fmt::format("cpu{}", cpu), .value = static_cast<double>(node)});
    }
  }
}

}  // namespace stepscope
