// SPDX-License-Identifier: Apache-2.0
#include "daemon/upload/upload_thread.h"

#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/status.h"
#include "daemon/upload/call_gate.h"
#include "daemon/upload/manifest.h"
#include "daemon/upload/run_upload.h"

namespace stepscope {
namespace {

constexpr int64_t kLongestRetryMs = 600'000;
constexpr std::chrono::milliseconds kStopTime{5000};
constexpr int64_t kBusyTickMs = 1000;  ///< while a run is followed
constexpr int64_t kIdleTickMs = 5000;
constexpr int64_t kLongestScanMs = 15'000;

/// A condition variable whose waits count by the steady clock. Those of absl::CondVar end at a time of the wall clock in the
/// versions we build with: a clock set back by an hour would hold the uploader for that hour.
class WakeUp {
 public:
  using Time = std::chrono::steady_clock::time_point;
  void SignalAll() { changed_.notify_all(); }
  /// `mutex` is held before and after. False when `end` came first.
  bool WaitUntil(absl::Mutex* mutex, Time end) {
    Held held{mutex};
    return changed_.wait_until(held, end) == std::cv_status::no_timeout;
  }

 private:
  struct Held {
    absl::Mutex* mutex;
    void lock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex->Lock(); }
    void unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex->Unlock(); }
  };
  std::condition_variable_any changed_;
};

/// What is known of one run. The thread owns `upload`; the rest is shared.
struct Work {
  bool ended = false;
  bool requested = false;
  int64_t not_before_ms = 0;  ///< node time: jitter, retry, next scan
  int64_t retry_ms = 0;       ///< 0 = the last try did not fail
  UploadStatus status;
};

/// Everything the thread touches. It outlives the Uploader when a hung request had to be abandoned.
class UploadLoop {
 public:
  UploadLoop(const UploadConfig& config, const UploadSeams& seams) : config_(config), seams_(seams) {}

  void Run();
  void Stop();
  bool WaitStopped(std::chrono::milliseconds limit);
  CallGate& gate() { return *gate_; }

  void JobEnded(RunId run);
  void Request(RunId run);
  UploadStatus Status(RunId run) const;

 private:
  int64_t NowMs() const { return seams_.clock->Node().ns / kNsPerMillisecond; }
  int64_t ScanEveryMs() const { return std::clamp(config_.part_seconds * 1000 / 20, kBusyTickMs, kLongestScanMs); }
  int64_t Jitter() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Enabled() const { return !config_.url.empty(); }

  void LearnRuns();
  std::optional<RunId> NextDue();
  void WaitForWork();
  void Process(RunId run);
  absl::Status Advance(RunId run, bool ended, bool requested);
  absl::StatusOr<RunUpload*> UploadOf(RunId run);
  absl::StatusOr<Dataset*> OpenDataset();
  bool PartIsDue(const RunUpload& upload) const;
  void Publish(RunId run, const RunUpload& upload, const std::string& state);
  void Settle(RunId run, bool ended, const absl::Status& status);
  void Fail(RunId run, bool ended, const absl::Status& status);
  void TellJob(RunId run, JobState state, const std::string& reason);

  const UploadConfig config_;
  const UploadSeams seams_;
  const std::shared_ptr<CallGate> gate_ = std::make_shared<CallGate>();
  std::unique_ptr<Dataset> dataset_;                     ///< thread only
  std::map<RunId, std::unique_ptr<RunUpload>> uploads_;  ///< thread only

  mutable absl::Mutex mutex_;
  WakeUp wake_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_){std::random_device()()};
  std::map<RunId, Work> works_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

int64_t UploadLoop::Jitter() {
  if (config_.jitter_ms <= 0) return 0;
  return std::uniform_int_distribution<int64_t>(0, config_.jitter_ms)(random_);
}

void UploadLoop::Run() {
  while (!gate_->stopping()) {
    LearnRuns();
    while (const std::optional<RunId> run = NextDue()) Process(*run);
    WaitForWork();
  }
  uploads_.clear();
  dataset_.reset();
  const absl::MutexLock lock(&mutex_);
  stopped_ = true;
  wake_.SignalAll();
}

void UploadLoop::WaitForWork() {
  const absl::MutexLock lock(&mutex_);
  if (stop_) return;
  int64_t wait_ms = works_.empty() ? kIdleTickMs : kBusyTickMs;
  for (const auto& [run, work] : works_) {
    if (work.status.state != "done") wait_ms = std::clamp<int64_t>(work.not_before_ms - NowMs(), 10, wait_ms);
  }
  wake_.WaitUntil(&mutex_, std::chrono::steady_clock::now() + std::chrono::milliseconds(wait_ms));
}

void UploadLoop::LearnRuns() {
  const std::vector<UploadRun> runs = seams_.runs->Runs();
  const absl::MutexLock lock(&mutex_);
  for (const UploadRun& run : runs) {
    const auto [at, added] = works_.try_emplace(run.run);
    Work& work = at->second;
    if (added) {
      work.status.state = "pending";
      work.status.url = config_.url;
    }
    if (run.ended && !work.ended) {
      work.ended = true;
      work.not_before_ms = NowMs() + Jitter();
    }
  }
}

std::optional<RunId> UploadLoop::NextDue() {
  const absl::MutexLock lock(&mutex_);
  if (stop_) return std::nullopt;
  const int64_t now_ms = NowMs();
  for (const auto& [run, work] : works_) {
    if (work.status.state != "done" && work.not_before_ms <= now_ms) return run;
  }
  return std::nullopt;
}

void UploadLoop::Process(RunId run) {
  bool ended = false, requested = false;
  {
    const absl::MutexLock lock(&mutex_);
    Work& work = works_[run];
    ended = work.ended;
    requested = std::exchange(work.requested, false);
  }
  if (!Enabled()) return Settle(run, ended, absl::OkStatus());
  const absl::StatusOr<UploadRun> known = seams_.runs->Find(run);
  if (absl::IsNotFound(known.status())) {  // the job was deleted
    uploads_.erase(run);
    const absl::MutexLock lock(&mutex_);
    works_.erase(run);
    return;
  }
  const absl::Status status = Advance(run, ended, requested);
  if (absl::IsCancelled(status) && gate_->stopping()) return;
  Settle(run, ended, status);
}

absl::Status UploadLoop::Advance(RunId run, bool ended, bool requested) {
  STEPSCOPE_ASSIGN_OR_RETURN(RunUpload* const upload, UploadOf(run));
  Publish(run, *upload, "running");
  if (upload->closed()) return absl::OkStatus();
  const bool everything = ended || requested;
  if (everything && seams_.drain) STEPSCOPE_RETURN_IF_ERROR(seams_.drain());
  STEPSCOPE_RETURN_IF_ERROR(upload->Collect(everything ? RunUpload::Reach::kEverything : RunUpload::Reach::kRecent));
  if (!everything && !upload->HasPlanned() && !PartIsDue(*upload)) {
    Publish(run, *upload, "pending");
    return absl::OkStatus();
  }
  Publish(run, *upload, "running");
  STEPSCOPE_ASSIGN_OR_RETURN(Dataset* const dataset, OpenDataset());
  STEPSCOPE_RETURN_IF_ERROR(upload->FinishPlanned(*dataset));
  while (upload->HasPending() && (everything || PartIsDue(*upload))) {
    const absl::Status written = upload->WritePart(*dataset);
    Publish(run, *upload, "running");
    STEPSCOPE_RETURN_IF_ERROR(written);
  }
  if (ended) STEPSCOPE_RETURN_IF_ERROR(upload->Close(*dataset));
  Publish(run, *upload, ended ? "running" : "pending");
  return absl::OkStatus();
}

absl::StatusOr<RunUpload*> UploadLoop::UploadOf(RunId run) {
  STEPSCOPE_ASSIGN_OR_RETURN(UploadRun known, seams_.runs->Find(run));
  std::unique_ptr<RunUpload>& upload = uploads_[run];
  if (upload != nullptr) {
    upload->set_run(std::move(known));
    return upload.get();
  }
  auto made = std::make_unique<RunUpload>(RunUpload::Seams{seams_.store, seams_.dictionary, seams_.clock, seams_.damaged},
                                          std::move(known), config_.part_bytes);
  STEPSCOPE_RETURN_IF_ERROR(made->Load());
  upload = std::move(made);
  return upload.get();
}

absl::StatusOr<Dataset*> UploadLoop::OpenDataset() {
  if (dataset_ != nullptr) return dataset_.get();
  DatasetOptions options;
  options.url = config_.url;
  options.endpoint = config_.endpoint;
  options.region = config_.region;
  options.sse_c_key_file = config_.sse_c_key_file;
  options.module_path = seams_.module_path;
  STEPSCOPE_RETURN_IF_ERROR(gate_->Enter());
  absl::StatusOr<std::unique_ptr<Dataset>> dataset = Dataset::Open(options);
  gate_->Leave();
  if (!dataset.ok()) return dataset.status();
  dataset_ = GateDataset(*std::move(dataset), gate_);
  return dataset_.get();
}

/// Full parts at once; a part by age when its oldest block has waited for part_seconds.
bool UploadLoop::PartIsDue(const RunUpload& upload) const {
  const std::optional<NodeTime> since = upload.pending_since();
  if (!since) return false;
  const bool full = upload.pending_bytes() >= static_cast<uint64_t>(config_.part_bytes);
  return full || seams_.clock->Node() - *since >= config_.part_seconds * kNsPerSecond;
}

void UploadLoop::Publish(RunId run, const RunUpload& upload, const std::string& state) {
  UploadStatus status;
  status.state = state;
  status.url = config_.url;
  for (const auto& [number, part] : upload.parts()) {
    ++status.parts_total;
    if (part.state() != store::v1::UploadPart::DONE) continue;
    ++status.parts_done;
    for (const store::v1::UploadFile& file : part.files()) {
      status.bytes_done += file.bytes();
      status.rows[static_cast<TableId>(file.table())] += file.rows();
    }
  }
  status.parts_total += static_cast<uint32_t>((upload.pending_bytes() + static_cast<uint64_t>(config_.part_bytes) - 1) /
                                              static_cast<uint64_t>(config_.part_bytes));
  const absl::MutexLock lock(&mutex_);
  works_[run].status = std::move(status);
}

void UploadLoop::Settle(RunId run, bool ended, const absl::Status& status) {
  if (!status.ok()) return Fail(run, ended, status);
  {
    const absl::MutexLock lock(&mutex_);
    Work& work = works_[run];
    work.retry_ms = 0;
    work.not_before_ms = NowMs() + ScanEveryMs() + Jitter();
    if (work.ended && !ended) work.not_before_ms = NowMs();  // ended meanwhile
    if (work.requested) work.not_before_ms = NowMs();
    if (ended) work.status.state = Enabled() ? "done" : "off";
    if (ended && !Enabled()) work.not_before_ms = std::numeric_limits<int64_t>::max();
  }
  if (!ended) return;
  uploads_.erase(run);
  TellJob(run, JobState::kDone,
          Enabled() ? fmt::format("uploaded to {}", config_.url) : "kept on this node; no upload is configured");
}

void UploadLoop::Fail(RunId run, bool ended, const absl::Status& status) {
  std::string reason;
  {
    const absl::MutexLock lock(&mutex_);
    Work& work = works_[run];
    work.retry_ms = std::min(work.retry_ms == 0 ? seams_.first_retry_ms : work.retry_ms * 2, kLongestRetryMs);
    work.not_before_ms = work.requested ? NowMs() : NowMs() + work.retry_ms;
    work.status.state = "failed";
    work.status.url = config_.url;
    work.status.reason = std::string(status.message());
    work.status.next_try_wall_ns = seams_.clock->Wall().ns + work.retry_ms * kNsPerMillisecond;
    reason = fmt::format("{}; next try in {:.0f} s", work.status.reason, static_cast<double>(work.retry_ms) / 1000);
  }
  spdlog::warn("upload of run {}: {}", run.value, reason);
  if (ended) TellJob(run, JobState::kFailed, reason);
}

void UploadLoop::TellJob(RunId run, JobState state, const std::string& reason) { seams_.runs->SetJobState(run, state, reason); }

void UploadLoop::JobEnded(RunId run) {
  const absl::MutexLock lock(&mutex_);
  Work& work = works_[run];
  if (!work.ended) work.not_before_ms = NowMs() + Jitter();
  work.ended = true;
  if (work.status.state == "off") work.status.state = "pending";
  wake_.SignalAll();
}

void UploadLoop::Request(RunId run) {
  const absl::MutexLock lock(&mutex_);
  Work& work = works_[run];
  if (work.status.state == "done") return;
  work.requested = true;
  work.retry_ms = 0;
  work.not_before_ms = 0;
  if (work.status.state == "off") work.status.state = "pending";
  wake_.SignalAll();
}

UploadStatus UploadLoop::Status(RunId run) const {
  const absl::MutexLock lock(&mutex_);
  UploadStatus status;
  if (const auto at = works_.find(run); at != works_.end()) status = at->second.status;
  if (!Enabled()) status.state = "off";
  return status;
}

void UploadLoop::Stop() {
  gate_->Stop();
  const absl::MutexLock lock(&mutex_);
  stop_ = true;
  wake_.SignalAll();
}

bool UploadLoop::WaitStopped(std::chrono::milliseconds limit) {
  const absl::MutexLock lock(&mutex_);
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!stopped_ && wake_.WaitUntil(&mutex_, deadline)) {
  }
  return stopped_;
}

class ThreadUploader final : public Uploader {
 public:
  ThreadUploader(const UploadConfig& config, const UploadSeams& seams) : loop_(std::make_shared<UploadLoop>(config, seams)) {}
  ~ThreadUploader() override { Stop(); }

  void Start() override {
    thread_ = std::thread([loop = loop_] {
      pthread_setname_np(pthread_self(), "uploader");
      loop->Run();
    });
  }
  void Stop() override {
    if (!thread_.joinable()) return;
    loop_->Stop();
    while (!loop_->WaitStopped(kStopTime)) {
      if (!loop_->gate().Abandon()) continue;  // it works on our side, which ends by itself
      spdlog::warn("upload: a request to the storage hangs; leaving it behind, the upload goes on at the next start");
      thread_.detach();
      return;
    }
    thread_.join();
  }
  void JobEnded(RunId run) override { loop_->JobEnded(run); }
  void Request(RunId run) override { loop_->Request(run); }
  UploadStatus Status(RunId run) const override { return loop_->Status(run); }

 private:
  const std::shared_ptr<UploadLoop> loop_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Uploader> CreateUploadThread(const UploadConfig& config, const UploadSeams& seams) {
  return std::make_unique<ThreadUploader>(config, seams);
}

}  // namespace stepscope
