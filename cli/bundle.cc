// SPDX-License-Identifier: Apache-2.0
#include "cli/bundle.h"

#include <filesystem>

namespace stepscope::cli {

Bundle FindBundle() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto root = self.parent_path().parent_path();
  return {(self.parent_path() / "stepscoped").string(), (root / "python").string(), (root / "python" / "inject").string(),
          (root / "lib" / "libstepscope_agent.so").string()};
}

}  // namespace stepscope::cli
