// SPDX-License-Identifier: Apache-2.0
// Configuration of stepscoped: /etc/stepscope/stepscoped.toml, then STEPSCOPED_<SECTION>_<KEY> variables, then --set flags.
// One table (config.cc) holds every key with its unit and default; deploy/stepscoped.toml is generated from it and a test keeps
// them equal. An unknown key is an error that names the nearest one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stepscope {

struct Config {
  std::string server_grpc_address = "127.0.0.1:7461";
  std::string server_http_address = "127.0.0.1:7462";
  std::string server_control_socket = "/run/stepscope/control.sock";
  std::string agent_socket = "/run/stepscope/agent.sock";
  std::string store_path = "/var/lib/stepscope";
  int64_t store_min_free_bytes = 0;
  int64_t retain_max_bytes = int64_t{20} << 30;
  int64_t retain_raw_minutes = 30;
  int64_t retain_evidence_seconds = 2;
  int64_t retain_normal_step_every = 100;
  std::string sched_mode = "slices";
  int64_t sched_ring_bytes = 8 << 20;
  int64_t sched_poll_ms = 20;
  bool counters_enabled = true;
  int64_t counters_period_ms = 100;
  std::string counters_events =
      "ref-cycles,cycles,instructions,cache-misses,"
      "itlb_misses.miss_causes_a_walk|itlb_misses.walk_completed|itlb_walk|iTLB-load-misses,"
      "context-switches,cpu-migrations,page-faults,cpu-clock";
  bool host_enabled = true;
  int64_t host_period_ms = 500;
  std::string upload_url;
  std::string upload_endpoint;
  std::string upload_region;
  std::string upload_sse_c_key_file;
  int64_t upload_part_bytes = int64_t{128} << 20;
  int64_t upload_part_seconds = 600;
  int64_t upload_jitter_ms = 2000;
  std::string log_level = "info";
};

/// Looks an environment variable up; the seam for tests. nullptr = not set.
using GetEnv = std::function<const char*(const char*)>;

/// Reads `path` ("" = the default path, which may be missing), then the environment, then `overrides` ("section.key=value").
absl::StatusOr<Config> LoadConfig(const std::string& path, const GetEnv& get_env, const std::vector<std::string>& overrides);

/// A key ("section.key") that has another value, and whether a running daemon can take it.
struct ConfigChange {
  std::string key;
  bool reloads = false;
};
std::vector<ConfigChange> ChangesBetween(const Config& before, const Config& after);

/// deploy/stepscoped.toml: every key with its default, unit and meaning.
std::string ConfigReference();

}  // namespace stepscope
