// SPDX-License-Identifier: Apache-2.0
#include "base/proc_cgroup.h"

#include <algorithm>

namespace stepscope {

std::vector<ProcCgroup> ParseProcCgroup(std::string_view text) {
  std::vector<ProcCgroup> groups;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t number_end = line.find_first_not_of("0123456789");
    if (number_end == 0 || number_end == std::string_view::npos || line[number_end] != ':') continue;
    const size_t controllers_end = line.find(':', number_end + 1);
    if (controllers_end == std::string_view::npos || controllers_end + 1 == line.size()) continue;
    groups.push_back({line.substr(number_end + 1, controllers_end - number_end - 1), line.substr(controllers_end + 1)});
  }
  return groups;
}

}  // namespace stepscope
