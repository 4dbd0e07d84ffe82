// SPDX-License-Identifier: Apache-2.0
// `stepscope`: the command line. The table below is the list of subcommands; each is one file.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/command.h"
#include "cli/help_markdown.h"
#include "daemon/version.h"

namespace stepscope::cli {
namespace {

constexpr AddCommand kCommands[] = {AddRun, AddTop,    AddReport, AddJobs,   AddStatus,
                                    AddEnd, AddDelete, AddUpload, AddDoctor, AddDaemon};

int Main(int argc, char** argv) {
  CLI::App app("stepscope: is each accelerator computing; if not, whose fault is it, and what did it cost to know", "stepscope");
  Globals globals;
  int exit_code = kOk;
  bool markdown = false;
  app.add_option("--data-dir", globals.data_dir, "private store to use; a daemon is started on it for the command if none runs")
      ->envname("STEPSCOPE_DATA_DIR");
  app.add_option("--server", globals.server, "host:port of a running stepscoped");
  app.add_flag("--help-markdown", markdown)->group("");
  app.set_version_flag("--version", std::string("stepscope ") + kVersion);
  app.footer(
      "JOB is a name, an id or `last`; JOB@RUN is one of its runs. Exit codes: 0 ok, 1 failed, 2 usage; `run` returns the "
      "command's own.");
  for (const AddCommand add : kCommands) add(app, globals, &exit_code);
  app.require_subcommand(0, 1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kUsage;
  }
  if (markdown) return fputs(HelpMarkdown(app).c_str(), stdout) < 0 ? kFailed : kOk;
  if (app.get_subcommands().empty()) return PrintState(globals);
  return exit_code;
}

}  // namespace
}  // namespace stepscope::cli

int main(int argc, char** argv) { return stepscope::cli::Main(argc, argv); }
