// SPDX-License-Identifier: Apache-2.0
// docs/cli.md, printed from the very objects that parse the command line; a test compares the committed file.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace stepscope::cli {

std::string HelpMarkdown(const CLI::App& app);

}  // namespace stepscope::cli
