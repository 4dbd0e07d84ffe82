// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/collector_state.h"

#include <regex>

namespace stepscope {

CollectorState DescribeFailure(const absl::Status& status) {
  CollectorState state;
  const std::string message(status.message());
  const size_t split = message.rfind("; ");
  state.reason = message.substr(0, split);
  if (split != std::string::npos) state.next_step = message.substr(split + 2);
  static const std::regex kErrno("^(.*): (E[A-Z0-9]+): [^:]*$");
  std::smatch parts;
  state.failed_step = state.reason;
  if (std::regex_match(state.reason, parts, kErrno)) {
    state.failed_step = parts[1];
    state.error = parts[2];
  }
  return state;
}

}  // namespace stepscope
