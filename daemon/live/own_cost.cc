// SPDX-License-Identifier: Apache-2.0
#include "daemon/live/own_cost.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "base/time.h"

namespace stepscope {

OwnCost ReadOwnCost() {
  OwnCost cost;
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    const auto ns = [](const timeval& t) { return t.tv_sec * kNsPerSecond + t.tv_usec * 1000; };
    cost.cpu_ns = ns(usage.ru_utime) + ns(usage.ru_stime);
  }
  std::ifstream statm("/proc/self/statm");
  uint64_t size_pages = 0;
  uint64_t resident_pages = 0;
  if (statm >> size_pages >> resident_pages) cost.rss_bytes = resident_pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return cost;
}

}  // namespace stepscope
