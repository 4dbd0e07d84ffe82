// SPDX-License-Identifier: Apache-2.0
// A subcommand of `stepscope`: one file each (cli/<name>.cc). Parse, call, print. The table in main.cc lists them; docs/cli.md is
// printed from the same CLI11 objects (`stepscope --help-markdown`).
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

namespace stepscope::cli {

/// Exit codes of every subcommand (docs/cli.md): 0 ok, 1 failed, 2 usage, 3 a --fail-on condition matched.
enum ExitCode : int { kOk = 0, kFailed = 1, kUsage = 2 };

/// Options that come before the subcommand.
struct Globals {
  std::string data_dir;  ///< --data-dir or STEPSCOPE_DATA_DIR: a private store
  std::string server;    ///< --server host:port
};

/// Adds a subcommand to `app`; its body sets `*exit_code`.
using AddCommand = void (*)(CLI::App& app, const Globals& globals, int* exit_code);

void AddRun(CLI::App& app, const Globals& globals, int* exit_code);
void AddTop(CLI::App& app, const Globals& globals, int* exit_code);
void AddJobs(CLI::App& app, const Globals& globals, int* exit_code);
void AddStatus(CLI::App& app, const Globals& globals, int* exit_code);
void AddReport(CLI::App& app, const Globals& globals, int* exit_code);
void AddEnd(CLI::App& app, const Globals& globals, int* exit_code);
void AddDelete(CLI::App& app, const Globals& globals, int* exit_code);
void AddUpload(CLI::App& app, const Globals& globals, int* exit_code);
void AddDoctor(CLI::App& app, const Globals& globals, int* exit_code);
void AddDaemon(CLI::App& app, const Globals& globals, int* exit_code);

/// Bare `stepscope`: the state and the next command.
int PrintState(const Globals& globals);

}  // namespace stepscope::cli
