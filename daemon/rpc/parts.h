// SPDX-License-Identifier: Apache-2.0
// Everything the RPC server is handed by main: what it reads, what it may order, and what it says about the node.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/collector/collector_state.h"
#include "daemon/jobs/job_table.h"
#include "daemon/live/rank_sampler.h"
#include "daemon/pipeline/run_totals.h"
#include "daemon/pipeline/table_reader.h"
#include "daemon/upload/uploader.h"
#include "storage/store.h"

namespace stepscope {

/// What does not change while the daemon runs.
struct NodeFacts {
  std::string hostname;
  std::string boot_id;
  std::string version;
  std::string kernel;
  uint32_t cpus = 0;
  std::string data_dir;
  std::string http_address;
  std::string agent_socket;
  std::string mode;                   ///< system or private
  std::vector<std::string> pipeline;  ///< stages, in order
};

/// One line of `stepscope doctor` that is not a collector.
struct DoctorCheck {
  std::string name;
  bool ok = false;
  std::string found;
  std::string next_step;
};

struct RpcParts {
  Store* store = nullptr;
  const TableReader* reader = nullptr;
  const RunDictionary* dictionary = nullptr;
  TotalsSource* totals = nullptr;
  JobTable* jobs = nullptr;
  Uploader* uploader = nullptr;  ///< null = no upload configured
  RankSampler* live = nullptr;
  const Clock* clock = nullptr;
  std::string proc = "/proc";  ///< root of procfs
  /// Seam for tests: uid of the caller behind grpc::ServerContext::peer(). Empty = PeerUid().
  std::function<absl::StatusOr<uint32_t>(const std::string& peer)> identify;

  std::function<void()> on_query = [] {};  ///< told of every query, and of each update of a stream
  std::function<NodeFacts()> node;
  std::function<std::vector<CollectorState>()> collectors;
  std::function<std::vector<DoctorCheck>()> checks;  ///< may be empty
  std::function<uint32_t()> sessions;                ///< agents connected; may be empty
  /// Takes in what the run's agents have committed so far. May be empty.
  std::function<absl::Status(RunId)> flush_sessions;
  /// The run is about to be deleted: stop working on it (uploader). May be empty.
  std::function<void(RunId)> before_delete;
};

}  // namespace stepscope
