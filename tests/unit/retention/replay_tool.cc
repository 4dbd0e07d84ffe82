// SPDX-License-Identifier: Apache-2.0
// Replays a job under a disk limit and says what happened: the program of script/test retention. Exits 1 if a promise is broken.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "tests/unit/retention/replay.h"
#include "tests/unit/storage/temp_dir.h"

int main(int argc, char** argv) {
  stepscope::ReplayPlan plan;
  double step_seconds = 40, max_mb = 64;
  CLI::App app("replays a job under a disk limit");
  app.add_option("--days", plan.days);
  app.add_option("--step-seconds", step_seconds);
  app.add_option("--rows", plan.rows_per_step, "rows a step");
  app.add_option("--max-mb", max_mb, "MiB of disk");
  app.add_option("--seed", plan.seed);
  app.add_flag("--progress", plan.progress);
  CLI11_PARSE(app, argc, argv);
  plan.step_ns = static_cast<int64_t>(step_seconds * 1e9);
  plan.max_bytes = static_cast<uint64_t>(max_mb * 1048576);
  const stepscope::TempDir dir;
  plan.directory = dir.path() + "/store";
  const stepscope::ReplayResult result = stepscope::Replay(plan);
  std::vector<std::string> faults = result.faults;
  for (const std::string& fault : stepscope::FlatnessFaults(plan, result)) faults.push_back(fault);
  fmt::print("{:.1f} days in {:.0f} s ({:.0f} times as fast): {} rows, {:.0f} a second; {} steps, {} outliers, {} findings\n",
             plan.days, result.seconds, plan.days * 86'400 / result.seconds, result.rows,
             static_cast<double>(result.rows) / result.seconds, result.steps, result.outliers, result.findings);
  fmt::print(
      "evicted {} rows in {} loss rows; disk at most {:.1f} MB of {:.1f}, third quarter {:.1f}, last quarter {:.1f}; resident "
      "{:.1f}, {:.1f} MB\n",
      result.evicted_rows, result.loss_rows, static_cast<double>(result.most_disk_bytes) / 1e6,
      static_cast<double>(plan.max_bytes) / 1e6, stepscope::MeanDisk(result, 0.5, 0.75) / 1e6,
      stepscope::MeanDisk(result, 0.75, 1) / 1e6, stepscope::MeanRss(result, 0.5, 0.75) / 1e6,
      stepscope::MeanRss(result, 0.75, 1) / 1e6);
  if (result.evicted_rows == 0) faults.push_back("nothing was evicted: the limit never mattered");
  for (const std::string& fault : faults) fmt::print("FAULT: {}\n", fault);
  return faults.empty() ? 0 : 1;
}
