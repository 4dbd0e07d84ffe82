// SPDX-License-Identifier: Apache-2.0
#include "cli/help_markdown.h"

#include <fmt/format.h>

namespace stepscope::cli {
namespace {

std::string Options(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    const std::string standing = option->get_default_str().empty() ? "" : fmt::format(" (default {})", option->get_default_str());
    text += fmt::format("| `{}` | {}{} |\n", option->get_name(false, true), option->get_description(), standing);
  }
  return text.empty() ? "" : "| option | meaning |\n| --- | --- |\n" + text + "\n";
}

}  // namespace

std::string HelpMarkdown(const CLI::App& app) {
  std::string text = fmt::format("# Command line\n\nPrinted by `stepscope --help-markdown`.\n\n{}\n\n{}{}\n\n",
                                 app.get_description(), Options(app), app.get_footer());
  for (const CLI::App* command : app.get_subcommands({})) {
    text += fmt::format("## stepscope {}\n\n{}.\n\n{}", command->get_name(), command->get_description(), Options(*command));
    if (command->get_footer() != app.get_footer()) text += command->get_footer() + "\n\n";
  }
  text.pop_back();
  return text;
}

}  // namespace stepscope::cli
