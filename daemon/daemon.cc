// SPDX-License-Identifier: Apache-2.0
#include "daemon/daemon.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <thread>

#include "base/status.h"
#include "daemon/away_time.h"
#include "daemon/capabilities.h"
#include "daemon/collector/host/job_facts.h"
#include "daemon/collector/host/sampler.h"
#include "daemon/collector/slice_source.h"
#include "daemon/discovery.h"
#include "daemon/disk_room.h"
#include "daemon/ingest/ingest.h"
#include "daemon/ingest/inner_tids.h"
#include "daemon/job_observer.h"
#include "daemon/jobs/job_table.h"
#include "daemon/live/audience.h"
#include "daemon/live/rank_sampler.h"
#include "daemon/pipeline/damaged_blocks.h"
#include "daemon/pipeline/pipeline.h"
#include "daemon/retention/retained_runs.h"
#include "daemon/retention/retention.h"
#include "daemon/rpc/server.h"
#include "daemon/sources_from_config.h"
#include "daemon/upload/uploader.h"
#include "daemon/version.h"
#include "daemon/web/web_server.h"
#include "storage/store.h"

namespace stepscope {
namespace {

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

std::string KernelRelease() {
  utsname name{};
  uname(&name);
  return name.release;
}

/// Whether a folder the daemon writes to belongs to another user, so that it is the daemon's only by CAP_DAC_OVERRIDE.
bool IsForeign(std::string_view path) {
  constexpr std::string_view kFile = "file://";
  if (path.starts_with(kFile)) path.remove_prefix(kFile.size());
  struct stat folder{};
  return path.starts_with('/') && stat(std::string(path).c_str(), &folder) == 0 && folder.st_uid != geteuid();
}

UploadConfig UploadFrom(const Config& config) {
  return {config.upload_url,        config.upload_endpoint,     config.upload_region,   config.upload_sse_c_key_file,
          config.upload_part_bytes, config.upload_part_seconds, config.upload_jitter_ms};
}

RetentionRules RetentionFrom(const Config& config) {
  RetentionRules rules;
  rules.max_bytes = static_cast<uint64_t>(config.retain_max_bytes);
  rules.min_free_bytes = BytesToLeave(config.store_path, config.store_min_free_bytes) / 4 * 5;  // before sources are held back
  rules.raw_ns = config.retain_raw_minutes * 60 * kNsPerSecond;
  rules.evidence = {config.retain_evidence_seconds * kNsPerSecond, config.retain_normal_step_every};
  return rules;
}

class RunningDaemon final : public Daemon {
 public:
  explicit RunningDaemon(const Options& options) : options_(options), config_(options_.config) {}
  ~RunningDaemon() override { Stop(); }

  absl::Status Start();
  void Tick() override;
  absl::Status Health() const override { return pipeline_->Health(); }
  void Stop() override;

 private:
  absl::Status OpenStore();
  void StartPipeline();
  absl::Status StartSources();
  absl::Status StartServers();
  void DropRights();
  JobTable::Hooks JobHooks();
  void Track(RunId run, ProcessKey root);
  void AddFacts(RunId run, const JobFacts& facts);
  void Ended(RunId run);
  NodeTime WasOpen(const JobSnapshot& job);
  absl::Status Room() const;
  NodeFacts Node() const;
  std::vector<CollectorState> Collectors() const;
  CollectorState AgentState() const;
  std::vector<DoctorCheck> Checks() const;
  absl::Status FlushRun(RunId run);
  RpcParts RpcWiring();

  const Options options_;
  const Config& config_;
  const std::string hostname_ = HostName();
  const std::string boot_id_ = FirstLine("/proc/sys/kernel/random/boot_id");
  SystemClock clock_;
  Audience audience_{&clock_};
  const std::function<bool()> watched_ = [this] { return audience_.IsThere(); };
  ClockRegistry clocks_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<JobTable> jobs_;
  std::unique_ptr<Retention> retention_;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<DamagedBlocks> damaged_;
  std::unique_ptr<TableReader> reader_;
  InnerTids inner_tids_{&clock_, [this] {
                          if (sched_ != nullptr) sched_->Flush().IgnoreError();  // without the collector nobody announces threads
                        }};
  std::unique_ptr<AwayTime> away_;
  std::unique_ptr<JobObserver> observer_;
  std::unique_ptr<SliceSource> sched_;  ///< null: switched off
  std::unique_ptr<Sampler> sampler_;
  mutable std::mutex rights_mu_;
  DoctorCheck rights_;  ///< under rights_mu_; what is left after DropRights; no name before it
  std::unique_ptr<Uploader> uploader_;
  std::unique_ptr<Ingest> ingest_;
  std::unique_ptr<RankSampler> live_;
  std::unique_ptr<RpcServer> rpc_;
  std::unique_ptr<WebServer> web_;
  std::string grpc_address_;
  std::string http_address_;
  bool stopped_ = false;
};

absl::Status RunningDaemon::OpenStore() {
  std::error_code error;
  std::filesystem::create_directories(config_.store_path, error);
  if (error) {
    return absl::FailedPreconditionError(
        fmt::format("cannot create {}: {}; give a writable directory with --data-dir", config_.store_path, error.message()));
  }
  STEPSCOPE_RETURN_IF_ERROR(HasRoomToOpen(config_.store_path));
  STEPSCOPE_ASSIGN_OR_RETURN(
      store_, Store::Open({.path = config_.store_path + "/store", .max_bytes = static_cast<uint64_t>(config_.retain_max_bytes)}));
  return absl::OkStatus();
}

JobTable::Hooks RunningDaemon::JobHooks() {
  return {[this](RunId run, ProcessKey root) { Track(run, root); },
          [this](RunId run) {
            sampler_->Untrack(run);
            if (sched_ == nullptr) return;
            if (const absl::Status status = sched_->Untrack(run); !status.ok()) {
              spdlog::warn("sched: run {}: {}", run.value, std::string(status.message()));
            }
          },
          [this](RunId run) { Ended(run); }, [this](const JobSnapshot& job) { return WasOpen(job); }};
}

void RunningDaemon::Track(RunId run, ProcessKey root) {
  AddFacts(run, ReadInstanceFacts(""));
  if (SharesFiles(root, "/proc")) AddFacts(run, ReadTrainingFacts(""));
  sampler_->Track(run);
  if (sched_ == nullptr) return;
  if (const auto start = ReadStartTicks(root.pid); !start.ok() || *start != root.start_ticks) return;  // ended; its pid is reused
  jobs_->AddFact(run, "sched.level", sched_->State().level);
  // The job is recorded without scheduling rows then; GetDoctor says why.
  if (const absl::Status status = sched_->Track(root.pid, run); !status.ok()) {
    spdlog::warn("sched: process {}: {}", root.pid.value, std::string(status.message()));
  }
}

void RunningDaemon::AddFacts(RunId run, const JobFacts& facts) {
  for (const auto& [key, value] : facts.facts) jobs_->AddFact(run, key, value);
  for (const std::string& problem : facts.problems) spdlog::warn("facts of run {}: {}", run.value, problem);
}

void RunningDaemon::Ended(RunId run) {
  pipeline_->Drain().IgnoreError();  // a failing store is reported by Health(); the uploader takes what is stored
  if (uploader_ != nullptr) uploader_->JobEnded(run);
}

/// With nothing but agents to record there is nothing that a daemon away could have missed, unless the power went.
NodeTime RunningDaemon::WasOpen(const JobSnapshot& job) {
  const bool records_itself = sched_ != nullptr || config_.counters_enabled || config_.host_enabled;
  if (!records_itself && job.boot_id == boot_id_) return clock_.Node();
  auto [loss, end] = away_->Missed(job);
  Delivery delivery;
  delivery.batches.push_back(std::move(loss));
  pipeline_->Deliver(std::move(delivery));
  return end;
}

absl::Status RunningDaemon::Room() const { return HasRoom(config_.store_path, config_.store_min_free_bytes); }

void RunningDaemon::StartPipeline() {
  away_ = std::make_unique<AwayTime>(store_.get(), &clock_, boot_id_);
  Pipeline::Options options;
  options.admit = [this](uint64_t bytes) { retention_->Admit(bytes); };
  options.sign_of_life = [this](NodeTime time) { return away_->Sign(time); };
  options.watched = watched_;
  options.room = [this] { return Room(); };
  pipeline_ = std::make_unique<Pipeline>(store_.get(), &clocks_, &clock_, options);
  Retention::Parts parts{store_.get(),
                         pipeline_.get(),
                         &clock_,
                         [this] { return RetainedRuns(*jobs_, boot_id_); },
                         [this] { return FreeBytes(config_.store_path); },
                         [this](RunId run) { pipeline_->NoteEvicted(run); }};
  retention_ = std::make_unique<Retention>(std::move(parts), RetentionFrom(config_));
  pipeline_->Start();
}

absl::Status RunningDaemon::StartSources() {
  StartPipeline();
  damaged_ = std::make_unique<DamagedBlocks>(store_.get(), pipeline_.get(), &clock_);
  reader_ = std::make_unique<TableReader>(store_.get(), pipeline_.get(), damaged_.get());
  jobs_ = std::make_unique<JobTable>(store_.get(), &clock_, boot_id_, hostname_, JobHooks());
  observer_ = std::make_unique<JobObserver>(jobs_.get(), pipeline_.get(), &inner_tids_);
  live_ = std::make_unique<RankSampler>(
      RankSampler::Parts{jobs_.get(), reader_.get(), pipeline_.get(), pipeline_.get(), &clock_,
                         [this] { return sched_ != nullptr ? sched_->OpenTurns() : std::vector<OpenTurn>(); }});
  live_->Start();
  sched_ = SliceSourceFrom(config_, pipeline_.get(), observer_.get(), &clock_, watched_);
  sampler_ = std::make_unique<Sampler>(
      MetricSourcesFrom(config_), pipeline_.get(), &clock_, [this](RunId run) { return jobs_->Processes(run); }, watched_);
  if (!config_.upload_url.empty()) {
    Uploader::Parts parts{store_.get(), pipeline_.get(), jobs_.get(), &clock_};
    parts.drain = [this] { return pipeline_->Drain(); };
    parts.damaged = damaged_.get();
    uploader_ = Uploader::Create(UploadFrom(config_), parts);
    uploader_->Start();
  }
  STEPSCOPE_ASSIGN_OR_RETURN(ParkedSessions parked, SessionPark(store_.get(), options_.fds).Take());
  STEPSCOPE_RETURN_IF_ERROR(jobs_->Load(parked.Processes()));
  retention_->Start();
  const Ingest::Parts parts{store_.get(), pipeline_.get(), &clocks_, jobs_.get(), &inner_tids_, options_.fds, watched_};
  STEPSCOPE_ASSIGN_OR_RETURN(ingest_, Ingest::Start({.socket_path = config_.agent_socket}, parts, std::move(parked)));
  return absl::OkStatus();
}

NodeFacts RunningDaemon::Node() const {
  return {hostname_,
          boot_id_,
          kVersion,
          KernelRelease(),
          std::thread::hardware_concurrency(),
          config_.store_path,
          http_address_,
          config_.agent_socket,
          options_.is_private ? "private" : "system",
          Pipeline::StageNames()};
}

CollectorState RunningDaemon::AgentState() const {
  CollectorState state;
  state.name = "agent";
  state.level = "full";
  state.state = "idle";
  const IngestNumbers numbers = ingest_->Stats();
  if (numbers.sessions > 0) state.state = "on";
  state.numbers = {{"sessions", std::to_string(numbers.sessions)},
                   {"records", std::to_string(numbers.records)},
                   {"malformed", std::to_string(numbers.malformed)}};
  for (const auto& [reason, count] : numbers.rejected) state.numbers["rejected: " + reason] = std::to_string(count);
  return state;
}

std::vector<CollectorState> RunningDaemon::Collectors() const {
  CollectorState off;
  off.name = "sched";
  off.level = "none";
  off.state = "off";
  off.reason = "switched off by sched.mode";
  off.next_step = "set sched.mode = \"slices\"";
  std::vector<CollectorState> states{sched_ != nullptr ? sched_->State() : off, AgentState()};
  std::ranges::move(sampler_->States(), std::back_inserter(states));
  return states;
}

std::vector<DoctorCheck> RunningDaemon::Checks() const {
  const absl::Status store = Health();
  const absl::Status room = Room();
  std::vector<DoctorCheck> checks;
  checks.push_back({"store", store.ok(), store.ok() ? config_.store_path : std::string(store.message()),
                    "free space or make the directory writable; nothing is acknowledged until it works"});
  checks.push_back({"disk", room.ok(), room.ok() ? FreeText(config_.store_path) : std::string(room.message()),
                    "free some space or move store.path"});
  checks.push_back({"upload", true, config_.upload_url.empty() ? "off (upload.url is not set)" : config_.upload_url, ""});
  const std::lock_guard lock(rights_mu_);
  if (!rights_.name.empty()) checks.push_back(rights_);
  return checks;
}

void RunningDaemon::DropRights() {
  const std::string level = sched_ != nullptr ? sched_->State().level : "none";
  const bool others = !options_.is_private;
  CapabilityNeeds needs;
  needs.uid = geteuid();
  needs.kernel_programs = level == "full";
  needs.perf_of_others = level == "own" && others;
  needs.other_users = others;
  needs.foreign_folders = IsForeign(config_.store_path) || IsForeign(config_.upload_url);
  const auto held = EffectiveCapabilities();
  absl::Status dropped = held.status();
  if (held.ok()) dropped = DropTo(ToKeep(needs, *held));
  const std::lock_guard lock(rights_mu_);
  rights_ = {"rights", dropped.ok(), "", "restart the daemon; if it happens again, start it without these capabilities"};
  const auto left = EffectiveCapabilities();
  rights_.found = fmt::format("uid {}, capabilities: {}", needs.uid, left.ok() ? CapabilityText(*left) : "unknown");
  if (dropped.ok()) return;
  rights_.found += fmt::format("; {}", std::string(dropped.message()));
  spdlog::warn("{}", std::string(dropped.message()));
}

absl::Status RunningDaemon::FlushRun(RunId run) {
  audience_.Look();  // somebody waits for the end of it
  const absl::Status sessions = ingest_->FlushSessions(run);
  const absl::Status slices = sched_ != nullptr ? sched_->Flush() : absl::OkStatus();
  return sessions.ok() ? slices : sessions;
}

RpcParts RunningDaemon::RpcWiring() {
  RpcParts parts;
  parts.store = store_.get();
  parts.reader = reader_.get();
  parts.dictionary = pipeline_.get();
  parts.totals = pipeline_.get();
  parts.jobs = jobs_.get();
  parts.uploader = uploader_.get();
  parts.live = live_.get();
  parts.on_query = [this] { audience_.Look(); };
  parts.clock = &clock_;
  parts.node = [this] { return Node(); };
  parts.collectors = [this] { return Collectors(); };
  parts.checks = [this] { return Checks(); };
  parts.sessions = [this] { return static_cast<uint32_t>(ingest_->Stats().sessions); };
  parts.flush_sessions = [this](RunId run) { return FlushRun(run); };
  parts.before_delete = [this](RunId run) {
    retention_->Forget(run);
    pipeline_->Forget(run);
  };
  return parts;
}

absl::Status RunningDaemon::StartServers() {
  WebParts web;
  web.metrics = {jobs_.get(),
                 pipeline_.get(),
                 store_.get(),
                 uploader_.get(),
                 [this] { return Collectors(); },
                 [this] { return static_cast<uint32_t>(ingest_->Stats().sessions); },
                 kVersion};
  web.ready = [this] { return Health(); };
  rpc_ = std::make_unique<RpcServer>(RpcWiring());
  STEPSCOPE_ASSIGN_OR_RETURN(const auto bound, rpc_->Start({config_.server_grpc_address, config_.server_control_socket}));
  grpc_address_ = bound.address;
  web.grpc_address = grpc_address_;
  web_ = std::make_unique<WebServer>(std::move(web));
  STEPSCOPE_ASSIGN_OR_RETURN(http_address_, web_->Start({config_.server_http_address}));
  STEPSCOPE_RETURN_IF_ERROR(WriteDiscovery(config_.store_path, {grpc_address_, http_address_, config_.agent_socket, kVersion}));
  spdlog::info("stepscoped {}: gRPC {}, HTTP {}, agents {}, store {}", kVersion, grpc_address_, http_address_,
               config_.agent_socket, config_.store_path);
  return absl::OkStatus();
}

absl::Status RunningDaemon::Start() {
  STEPSCOPE_RETURN_IF_ERROR(OpenStore());
  STEPSCOPE_RETURN_IF_ERROR(StartSources());
  STEPSCOPE_RETURN_IF_ERROR(StartServers());
  DropRights();
  return absl::OkStatus();
}

void RunningDaemon::Tick() {
  jobs_->Tick();
  observer_->NoteRanks();
  if (Health().ok() && jobs_->AnyRunning()) pipeline_->Deliver({});  // a seal, and with it a sign of life
  if (jobs_->AnyRunning()) return;                                   // its seals sync
  if (const absl::Status synced = store_->Sync(); !synced.ok()) spdlog::error("store: {}", std::string(synced.message()));
}

void RunningDaemon::Stop() {
  if (std::exchange(stopped_, true)) return;
  if (store_ != nullptr) RemoveDiscovery(config_.store_path);
  if (rpc_ != nullptr) rpc_->Stop();
  if (web_ != nullptr) web_->Stop();
  if (ingest_ != nullptr) ingest_->Stop();
  if (sched_ != nullptr) sched_->Stop();
  if (sampler_ != nullptr) sampler_->Stop();
  if (live_ != nullptr) live_->Stop();
  if (uploader_ != nullptr) uploader_->Stop();
  if (retention_ != nullptr) retention_->Stop();
  if (pipeline_ != nullptr) pipeline_->Stop();
  if (store_ != nullptr) store_->Sync().IgnoreError();  // closing the store flushes the log again
}

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(const Options& options) {
  auto daemon = std::make_unique<RunningDaemon>(options);
  STEPSCOPE_RETURN_IF_ERROR(daemon->Start());
  return daemon;
}

}  // namespace stepscope
