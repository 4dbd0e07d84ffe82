// SPDX-License-Identifier: Apache-2.0
// The sched thread: what it waits for, draining and the books. What records mean for the task table is in
// sched_follow.cc.
#include "daemon/collector/sched_collector.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/status.h"

namespace stepscope {
namespace {

// A record is in its ring within microseconds of its time; with several rings, younger ones wait for the next drain.
constexpr int64_t kSettleNs = 1 * kNsPerMillisecond;
constexpr int64_t kBooksPeriodNs = kNsPerSecond;

constexpr char kWorks[] = "every turn of every thread: waits, wakers, system calls, faults, and the kernel's own counts";

uint64_t TimeOf(std::span<const std::byte> record) {
  if (static_cast<uint8_t>(record[0]) != STEPSCOPE_SLICE)
    return reinterpret_cast<const stepscope_task_event*>(record.data())->time_ns;
  return reinterpret_cast<const stepscope_slice*>(record.data())->off_ns;
}

}  // namespace

SchedCollector::SchedCollector(SchedOptions options, DeliverySink* sink, TaskObserver* observer, const Clock* clock)
    : options_(std::move(options)),
      sink_(sink),
      observer_(observer),
      clock_(clock),
      proc_(options_.proc_root),
      tick_ns_(kNsPerSecond / sysconf(_SC_CLK_TCK)),
      occupants_(&proc_, &tasks_) {
  state_.name = "sched";
  state_.level = "none";
  state_.state = "off";
}

SchedCollector::~SchedCollector() { Stop(); }

absl::Status SchedCollector::Start() {
  absl::Status prepared = Prepare();
  std::lock_guard lock(mutex_);
  if (!prepared.ok()) {
    programs_.reset();
    state_.state = "unavailable";
    const CollectorState failure = DescribeFailure(prepared);
    state_.reason = failure.reason;
    state_.next_step = failure.next_step;
    return prepared;
  }
  state_.level = "full";
  state_.works = kWorks;
  state_.state = "idle";
  thread_.Start([this] { Wait(); },
                [this] {
                  if (programs_->attached()) Tick();
                });
  return absl::OkStatus();
}

absl::Status SchedCollector::Prepare() {
  STEPSCOPE_ASSIGN_OR_RETURN(
      programs_, SchedPrograms::Load(options_.programs, [this](std::span<const std::byte> record) { OnRecord(record); }));
  programs_->SetClass(getpid(), STEPSCOPE_CLASS_US);
  STEPSCOPE_RETURN_IF_ERROR(thread_.Open());
  epoll_event event{};
  event.events = EPOLLIN;
  if (epoll_ctl(programs_->wake_fd(), EPOLL_CTL_ADD, thread_.wake_fd(), &event) != 0) {
    return ErrnoStatus(errno, "epoll_ctl(eventfd of the sched thread)");
  }
  return absl::OkStatus();
}

void SchedCollector::Stop() {
  thread_.Stop([this] {
    DrainRings(/*until_now=*/true);
    CheckBooks();
    Deliver();
    programs_->Detach();
    std::lock_guard lock(mutex_);
    state_.state = "off";
  });
}

absl::Status SchedCollector::Track(Pid root, RunId run) {
  return Call([this, root, run] { return TrackNow(root, run); });
}

absl::Status SchedCollector::Untrack(RunId run) {
  if (!thread_.IsCurrent()) {
    return Call([this, run] { return UntrackNow(run); });
  }
  thread_.Post([this, run] { UntrackNow(run).IgnoreError(); });
  return absl::OkStatus();
}

absl::Status SchedCollector::Flush() {
  return Call([this] {
    DrainRings(/*until_now=*/true);
    FinishEnded();
    CheckBooks();
    Deliver();
    return absl::OkStatus();
  });
}

absl::StatusOr<SchedBooks> SchedCollector::Books(RunId run) {
  SchedBooks sum;
  absl::Status status = Call([&]() -> absl::Status {
    for (auto& [klass, tracked] : runs_) {
      if (tracked.run != run) continue;
      STEPSCOPE_ASSIGN_OR_RETURN(auto now, programs_->Books(klass));
      for (size_t cpu = 0; cpu < now.size(); ++cpu) {
        const stepscope_sched_books& base = tracked.at_start[cpu];
        sum.slices += now[cpu].slices - base.slices;
        sum.slices_lost += now[cpu].slices_lost - base.slices_lost;
        sum.waits += now[cpu].waits - base.waits;
        sum.waits_lost += now[cpu].waits_lost - base.waits_lost;
        sum.events_lost += now[cpu].events_lost - base.events_lost;
        sum.closed_switches += now[cpu].closed_switches - base.closed_switches;
        sum.closed_threads += now[cpu].closed_threads - base.closed_threads;
      }
      return absl::OkStatus();
    }
    return absl::NotFoundError(fmt::format("run {} is not tracked by the sched collector", run.value));
  });
  if (!status.ok()) return status;
  return sum;
}

SchedCounters SchedCollector::Counters() const {
  return {records_.load(),    slices_.load(),      unplaced_.load(),  refused_.load(),     slices_lost_.load(),
          waits_lost_.load(), events_lost_.load(), processes_.load(), live_threads_.load()};
}

CollectorState SchedCollector::State() const {
  CollectorState state;
  {
    std::lock_guard lock(mutex_);
    state = state_;
  }
  SchedCounters now = Counters();
  state.numbers = {{"records", std::to_string(now.records)},         {"slices", std::to_string(now.slices)},
                   {"slices_lost", std::to_string(now.slices_lost)}, {"waits_lost", std::to_string(now.waits_lost)},
                   {"events_lost", std::to_string(now.events_lost)}, {"processes", std::to_string(now.processes)},
                   {"threads", std::to_string(now.threads)}};
  return state;
}

absl::Status SchedCollector::Call(std::function<absl::Status()> work) {
  {
    std::lock_guard lock(mutex_);
    if (programs_ == nullptr) {
      return absl::FailedPreconditionError(fmt::format("scheduling records are not available: {}; {}",
                                                       state_.reason.empty() ? "the collector was not started" : state_.reason,
                                                       state_.next_step.empty() ? "start it first" : state_.next_step));
    }
  }
  return thread_.Call(std::move(work));
}

void SchedCollector::Wait() {
  const auto period = options_.watched() ? options_.drain_period : std::max(options_.drain_period, options_.quiet_drain_period);
  const int timeout_ms = programs_->attached() ? static_cast<int>(period.count()) : -1;
  epoll_event events[4];
  epoll_wait(programs_->wake_fd(), events, 4, timeout_ms);
}

void SchedCollector::Tick() {
  DrainRings(/*until_now=*/false);
  FinishEnded();
  if (clock_->Node() - books_checked_ >= kBooksPeriodNs) CheckBooks();
  Deliver();
}

void SchedCollector::DrainRings(bool until_now) {
  if (!programs_->attached()) return;
  uint64_t settled = static_cast<uint64_t>(clock_->Node().ns - kSettleNs);
  ++drains_;
  programs_->Consume().IgnoreError();
  if (held_.empty()) return;
  std::sort(held_.begin(), held_.end());
  auto end = held_.end();
  if (!until_now) end = std::find_if(held_.begin(), held_.end(), [&](const HeldRecord& r) { return r.time_ns >= settled; });
  for (auto it = held_.begin(); it != end; ++it) Handle(it->bytes);
  held_.erase(held_.begin(), end);
}

void SchedCollector::OnRecord(std::span<const std::byte> record) {
  records_.fetch_add(1, std::memory_order_relaxed);
  if (programs_->ring_count() == 1) return Handle(record);
  HeldRecord held{TimeOf(record), records_.load(std::memory_order_relaxed), {}};
  std::memcpy(held.bytes.data(), record.data(), std::min(record.size(), held.bytes.size()));
  held_.push_back(held);
}

void SchedCollector::CheckBooks() {
  NodeTime now = clock_->Node();
  bool events_were_lost = false;
  for (auto& [klass, tracked] : runs_) {
    uint64_t stateless = 0;
    absl::StatusOr<std::vector<stepscope_sched_books>> books = programs_->Books(klass);
    if (!books.ok()) continue;
    for (size_t cpu = 0; cpu < books->size(); ++cpu) {
      const stepscope_sched_books& now_lost = (*books)[cpu];
      const stepscope_sched_books& told = tracked.reported[cpu];
      const auto tell = [&](TableId table, uint64_t count, size_t record_bytes) {
        if (count == 0) return;
        rows_.AddLoss({tracked.run, static_cast<int64_t>(cpu), books_checked_, now, table, static_cast<int64_t>(count),
                       static_cast<int64_t>(count * record_bytes)});
      };
      const uint64_t slices = now_lost.slices_lost - told.slices_lost;
      const uint64_t waits = now_lost.waits_lost - told.waits_lost;
      const uint64_t events = now_lost.events_lost - told.events_lost;
      stateless += now_lost.stateless - told.stateless;
      tell(TableId::kSchedSlice, slices, sizeof(stepscope_slice));
      tell(TableId::kSchedWait, waits, sizeof(stepscope_wait));
      tell(TableId{}, events, sizeof(stepscope_task_event));
      slices_lost_ += slices;
      waits_lost_ += waits;
      events_lost_ += events;
      events_were_lost = events_were_lost || events > 0;
    }
    tracked.reported = *std::move(books);
    if (stateless > 0) {
      for (int32_t tgid : tasks_.ProcessesOf(tracked.run)) PrepareThreads(tgid);
    }
    if (!options_.programs.as_histogram) continue;
    if (const auto histogram = programs_->Histogram(klass); histogram.ok())
      rows_.AddHistogram(tracked.run, now, tracked.histogram_at_start, *histogram);
  }
  books_checked_ = now;
  if (events_were_lost) SweepAgainstProc();
}

void SchedCollector::Deliver() {
  processes_ = tasks_.process_count();
  live_threads_ = tasks_.thread_count();
  if (rows_.rows() == 0 && notes_.empty()) return;
  size_t rows = rows_.rows();
  Delivery delivery;
  delivery.batches = rows_.Take();
  delivery.notes = std::move(notes_);
  notes_.clear();
  if (!sink_->Deliver(std::move(delivery))) refused_ += rows;
}

}  // namespace stepscope
