// SPDX-License-Identifier: Apache-2.0
// DaemonMetrics: the numbers of /metrics, read when they are scraped. Jobs are counted, never named: whoever can reach the port
// may read this page, and job names belong to their users.
//
// Thread rule: any thread.
#pragma once

#include <prometheus/collectable.h>

#include <functional>
#include <string>
#include <vector>

#include "daemon/collector/collector_state.h"
#include "daemon/jobs/job_table.h"
#include "daemon/pipeline/run_totals.h"
#include "daemon/upload/uploader.h"
#include "storage/store.h"

namespace stepscope {

struct MetricParts {
  const JobTable* jobs = nullptr;
  const TotalsSource* totals = nullptr;
  const Store* store = nullptr;
  const Uploader* uploader = nullptr;  ///< null = no upload configured
  std::function<std::vector<CollectorState>()> collectors;
  std::function<uint32_t()> sessions;  ///< may be empty
  std::string version;
};

class DaemonMetrics final : public prometheus::Collectable {
 public:
  explicit DaemonMetrics(MetricParts parts) : parts_(std::move(parts)) {}
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const MetricParts parts_;
};

}  // namespace stepscope
