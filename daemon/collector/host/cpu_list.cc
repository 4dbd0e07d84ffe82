// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/cpu_list.h"

#include <unistd.h>

#include <charconv>
#include <numeric>

#include "base/proc_stat.h"

namespace stepscope {
namespace {

constexpr int kMostCpus = 1 << 16;  // a broken line does not become a huge list

/// Takes a number from the front of `text`; -1 if there is none.
int TakeNumber(std::string_view& text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number >= kMostCpus) return -1;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

}  // namespace

std::vector<int> ParseCpuList(std::string_view text) {
  std::vector<int> cpus;
  while (true) {
    const int first = TakeNumber(text);
    int last = first;
    if (!text.empty() && text[0] == '-') {
      text.remove_prefix(1);
      last = TakeNumber(text);
    }
    if (first < 0 || last < first || cpus.size() > kMostCpus) return cpus;
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (text.empty() || text[0] != ',') return cpus;
    text.remove_prefix(1);
  }
}

std::vector<int> OnlineCpus(const std::string& root) {
  std::vector<int> cpus = ParseCpuList(ReadProcFile(root + "/sys/devices/system/cpu/online"));
  if (!cpus.empty()) return cpus;
  cpus.resize(static_cast<size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))));
  std::iota(cpus.begin(), cpus.end(), 0);
  return cpus;
}

}  // namespace stepscope
