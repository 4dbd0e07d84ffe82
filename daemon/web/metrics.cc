// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/metrics.h"

#include <prometheus/metric_family.h>

#include <charconv>
#include <map>

#include "analysis/loss_text.h"
#include "daemon/live/own_cost.h"
#include "daemon/live/totals_proto.h"

namespace stepscope {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

class Family {
 public:
  Family(std::string name, std::string help, MetricType type) : family_{std::move(name), std::move(help), type, {}} {}
  Family& Add(double value, Labels labels = {}) {
    ClientMetric& metric = family_.metric.emplace_back();
    metric.label = std::move(labels);
    (family_.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
    return *this;
  }
  MetricFamily Take() { return std::move(family_); }

 private:
  MetricFamily family_;
};

Family Gauge(std::string name, std::string help) { return {std::move(name), std::move(help), MetricType::Gauge}; }
Family Counter(std::string name, std::string help) { return {std::move(name), std::move(help), MetricType::Counter}; }

MetricFamily JobsByState(const std::vector<JobSnapshot>& jobs) {
  std::map<std::string, int> states;
  for (const JobState state :
       {JobState::kRunning, JobState::kQuiet, JobState::kEnded, JobState::kUploading, JobState::kDone, JobState::kFailed}) {
    states[JobStateName(state)] = 0;
  }
  for (const JobSnapshot& job : jobs) ++states[JobStateName(job.state)];
  Family family = Gauge("stepscope_runs", "Recorded runs of jobs by state.");
  for (const auto& [state, count] : states) family.Add(count, {{"state", state}});
  return family.Take();
}

void AddTotalFamilies(const RunTotals& totals, std::vector<MetricFamily>* families) {
  Family rows = Gauge("stepscope_rows", "Rows of all recorded runs, in memory or stored, by table.");
  Family bytes = Gauge("stepscope_block_bytes", "Bytes of stored blocks by table.");
  for (const auto& [table, total] : totals.tables) {
    const Labels labels = {{"table", LossTableText(static_cast<int64_t>(table))}};
    rows.Add(static_cast<double>(total.rows), labels);
    bytes.Add(static_cast<double>(total.stored_bytes), labels);
  }
  Family loss =
      Gauge("stepscope_lost_records", "Records known to be missing from the recorded runs, where and why; -1 = unknown.");
  for (const auto& [key, amount] : totals.loss) {
    loss.Add(static_cast<double>(amount.count),
             {{"stage", LossStageText(key.stage)}, {"reason", LossReasonText(key.reason)}, {"table", LossTableText(key.table)}});
  }
  families->push_back(rows.Take());
  families->push_back(bytes.Take());
  families->push_back(loss.Take());
}

void AddUploadFamilies(const std::vector<JobSnapshot>& jobs, const Uploader* uploader, std::vector<MetricFamily>* families) {
  std::map<std::string, int> states;
  double parts = 0;
  double bytes = 0;
  for (const JobSnapshot& job : jobs) {
    const UploadStatus status = uploader != nullptr ? uploader->Status(job.run) : UploadStatus{};
    ++states[status.state];
    parts += status.parts_done;
    bytes += static_cast<double>(status.bytes_done);
  }
  Family runs = Gauge("stepscope_upload_runs", "Recorded runs by state of their upload.");
  for (const char* state : {"off", "pending", "running", "done", "failed"}) runs.Add(states[state], {{"state", state}});
  families->push_back(runs.Take());
  families->push_back(Gauge("stepscope_uploaded_parts", "Parts uploaded of the recorded runs.").Add(parts).Take());
  families->push_back(Gauge("stepscope_uploaded_bytes", "Bytes uploaded of the recorded runs.").Add(bytes).Take());
}

/// Collectors give numbers as text for people; those that are numbers are shown.
void AddCollectorFamilies(const std::vector<CollectorState>& collectors, std::vector<MetricFamily>* families) {
  Family up = Gauge("stepscope_collector_up", "1 if the collector is on or idle, 0 if it is off or not available.");
  Family numbers = Gauge("stepscope_collector_number", "Numbers a collector reports about itself: records, drops and the like.");
  for (const CollectorState& collector : collectors) {
    up.Add(collector.state == "on" || collector.state == "idle" ? 1 : 0,
           {{"collector", collector.name}, {"level", collector.level}});
    for (const auto& [name, text] : collector.numbers) {
      double value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error == std::errc() && end == text.data() + text.size()) {
        numbers.Add(value, {{"collector", collector.name}, {"number", name}});
      }
    }
  }
  families->push_back(up.Take());
  families->push_back(numbers.Take());
}

}  // namespace

std::vector<MetricFamily> DaemonMetrics::Collect() const {
  std::vector<MetricFamily> families;
  const std::vector<JobSnapshot> jobs = parts_.jobs->List();
  families.push_back(
      Gauge("stepscope_build_info", "Always 1; the release is in the label.").Add(1, {{"version", parts_.version}}).Take());
  families.push_back(JobsByState(jobs));
  RunTotals totals;
  for (const JobSnapshot& job : jobs) AddTotals(parts_.totals->Totals(job.run), &totals);
  AddTotalFamilies(totals, &families);
  AddUploadFamilies(jobs, parts_.uploader, &families);
  if (parts_.collectors) AddCollectorFamilies(parts_.collectors(), &families);
  families.push_back(Gauge("stepscope_agent_sessions", "Agents connected.").Add(parts_.sessions ? parts_.sessions() : 0).Take());
  if (const auto bytes = parts_.store->DiskBytes(); bytes.ok()) {
    families.push_back(Gauge("stepscope_store_bytes", "Disk used by the store.").Add(static_cast<double>(*bytes)).Take());
  }
  const OwnCost cost = ReadOwnCost();
  families.push_back(Counter("process_cpu_seconds_total", "User and system CPU time of the daemon, in seconds.")
                         .Add(static_cast<double>(cost.cpu_ns) * 1e-9)
                         .Take());
  families.push_back(
      Gauge("process_resident_memory_bytes", "Resident memory of the daemon.").Add(static_cast<double>(cost.rss_bytes)).Take());
  return families;
}

}  // namespace stepscope
