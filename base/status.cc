// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <fmt/format.h>

#include <cstring>

namespace stepscope {

absl::Status ErrnoStatus(int error_number, std::string_view what, std::string_view next_step) {
  const char* symbol = strerrorname_np(error_number);
  std::string text = fmt::format("{}: {}: {}", what, symbol != nullptr ? symbol : "errno", strerror(error_number));
  if (!next_step.empty()) text += fmt::format("; {}", next_step);
  return absl::Status(absl::ErrnoToStatusCode(error_number), text);
}

}  // namespace stepscope
