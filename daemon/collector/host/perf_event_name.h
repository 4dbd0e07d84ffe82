// SPDX-License-Identifier: Apache-2.0
// Event names people know, as perf_event_open takes them. The tables are libpfm4's, for the CPU this runs on: its own events
// ("itlb_misses.miss_causes_a_walk", "ex_ret_instr"), the kernel's generic ones ("cycles", "iTLB-load-misses") and software
// events
// ("context-switches"); modifiers as libpfm4 has them (":u", ":k"). Two names of other tools for the reference cycles are known
// besides (clk_unhalted_ref.tsc, cpu_clk_unhalted.ref_tsc).
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace stepscope {

struct PerfEvent {
  std::string name;  ///< as asked for
  uint32_t type = 0;
  uint64_t config = 0;
  uint64_t config1 = 0;
  uint64_t config2 = 0;
  bool exclude_user = false;
  bool exclude_kernel = false;
  bool is_software = false;  ///< counted by the kernel; works without a PMU
};

/// NOT_FOUND when this CPU has no event of that name. Thread-safe after the first call.
absl::StatusOr<PerfEvent> FindPerfEvent(const std::string& name);

}  // namespace stepscope
