// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/perf_event_name.h"

#include <fmt/format.h>
#include <perfmon/pfmlib_perf_event.h>

#include <array>
#include <utility>

namespace stepscope {
namespace {

constexpr std::array<std::pair<const char*, const char*>, 2> kOtherNames = {{
    {"clk_unhalted_ref.tsc", "ref-cycles"},
    {"cpu_clk_unhalted.ref_tsc", "ref-cycles"},
}};

std::string PfmName(const std::string& name) {
  for (const auto& [other, pfm] : kOtherNames) {
    if (name == other) return pfm;
  }
  return name;
}

}  // namespace

absl::StatusOr<PerfEvent> FindPerfEvent(const std::string& name) {
  static const int initialized = pfm_initialize();
  if (initialized != PFM_SUCCESS) {
    return absl::UnavailableError(fmt::format("libpfm4: {}; check that this CPU is one it knows", pfm_strerror(initialized)));
  }
  perf_event_attr attr{};
  attr.size = sizeof(attr);
  const int found = pfm_get_perf_event_encoding(PfmName(name).c_str(), PFM_PLM0 | PFM_PLM3, &attr, nullptr, nullptr);
  if (found != PFM_SUCCESS) {
    return absl::NotFoundError(
        fmt::format("event \"{}\": {}; `perf list` and libpfm4's showevtinfo name this CPU's events", name, pfm_strerror(found)));
  }
  return PerfEvent{.name = name,
                   .type = attr.type,
                   .config = attr.config,
                   .config1 = attr.config1,
                   .config2 = attr.config2,
                   .exclude_user = attr.exclude_user != 0,
                   .exclude_kernel = attr.exclude_kernel != 0,
                   .is_software = attr.type == PERF_TYPE_SOFTWARE};
}

}  // namespace stepscope
