// SPDX-License-Identifier: Apache-2.0
// A long job replayed quickly: the real pipeline, store and retention under a clock that the replay moves. Each step is one
// delivery; its rows lie in the first second of the step, so that a step may stand for many seconds of a thinned job. Outlier
// steps (three times as long, with three times the rows) and findings come at random moments.
//
// Afterwards every row is accounted for: produced = readable + in retention's loss rows; the rows of outlier steps and around
// findings are all there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"

namespace stepscope {

struct ReplayPlan {
  double days = 1;
  int64_t step_ns = 40 * kNsPerSecond;
  int rows_per_step = 500;  ///< of raw tables
  uint64_t max_bytes = 64 << 20;
  int64_t raw_ns = 1800 * kNsPerSecond;
  int outlier_every = 700;  ///< one step in so many, at random
  int finding_every = 900;
  std::string directory;  ///< of the store; empty before, left behind
  uint64_t seed = 1;
  bool progress = false;  ///< print a line per percent
};

/// Disk and memory at one moment of the replay.
struct ReplaySample {
  double days = 0;
  uint64_t disk_bytes = 0;  ///< as du counts
  uint64_t rss_bytes = 0;
};

struct ReplayResult {
  uint64_t rows = 0;  ///< produced
  uint64_t steps = 0;
  uint64_t outliers = 0;
  uint64_t findings = 0;
  uint64_t evicted_rows = 0;  ///< as the loss rows say
  uint64_t loss_rows = 0;
  double seconds = 0;                 ///< of the replay itself
  uint64_t most_disk_bytes = 0;       ///< seen by a thread that looks all the time
  std::vector<ReplaySample> samples;  ///< 100, evenly spread
  std::vector<std::string> faults;    ///< what is not as promised
};

ReplayResult Replay(const ReplayPlan& plan);

/// Mean of the samples in [from, to) of the replay, both 0 to 1.
double MeanDisk(const ReplayResult& result, double from, double to);
double MeanRss(const ReplayResult& result, double from, double to);

/// Promises about disk and memory over the second half.
std::vector<std::string> FlatnessFaults(const ReplayPlan& plan, const ReplayResult& result);

}  // namespace stepscope
