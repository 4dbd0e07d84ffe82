// SPDX-License-Identifier: Apache-2.0
// Where our own files are: found beside the running program, so that the whole tree can be moved.
#pragma once

#include <string>

namespace stepscope::cli {

struct Bundle {
  std::string daemon;  ///< bin/stepscoped
  std::string python;  ///< python/: holds the package `stepscope`
  std::string inject;  ///< python/inject: holds only sitecustomize.py
  std::string agent;   ///< lib/libstepscope_agent.so
};
Bundle FindBundle();

}  // namespace stepscope::cli
