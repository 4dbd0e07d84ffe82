// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/proc_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/proc_stat.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "daemon/collector/host/text_columns.h"

namespace stepscope {
namespace {

// Three files cost about 50 us: a twentieth of a core at one sample a second.
constexpr size_t kMostProcesses = 1000;
constexpr size_t kMostBytes = 16 << 10;

struct KeyMetric {
  std::string_view key;
  const char* name;
};
constexpr KeyMetric kStatus[] = {
    {"VmRSS:", "process.rss_bytes"},
    {"VmSwap:", "process.swap_bytes"},
    {"voluntary_ctxt_switches:", "process.main_thread_voluntary_switches_total"},
    {"nonvoluntary_ctxt_switches:", "process.main_thread_involuntary_switches_total"},
};
constexpr KeyMetric kIo[] = {
    {"rchar:", "process.rchar_bytes_total"},
    {"wchar:", "process.wchar_bytes_total"},
    {"read_bytes:", "process.read_bytes_total"},
    {"write_bytes:", "process.written_bytes_total"},
};

struct FileText {
  std::string text;
  int error = 0;  ///< errno of the step that failed; the rights to /proc/PID/io are asked for at read(), not at open()
};

FileText ReadAt(const unique_fd& directory, const char* name) {
  FileText file;
  const unique_fd fd(openat(directory.get(), name, O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) return {"", errno};
  file.text.resize(kMostBytes);
  size_t size = 0;
  while (size < kMostBytes) {
    const ssize_t got = read(fd.get(), file.text.data() + size, kMostBytes - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return {"", errno};
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  file.text.resize(size);
  return file;
}

template <size_t kCount>
void AddKeys(const KeyMetric (&metrics)[kCount], ProcessKey process, std::string_view text, MetricSink* sink) {
  while (auto line = TakeLine(text)) {
    const auto found = std::ranges::find(metrics, TakeWord(*line), &KeyMetric::key);
    if (found == std::end(metrics)) continue;
    const auto count = ParseCount(TakeWord(*line));
    if (!count) continue;
    const double unit = TakeWord(*line) == "kB" ? 1024 : 1;
    sink->Add({.name = found->name, .process = process, .value = static_cast<double>(*count) * unit});
  }
}

}  // namespace

ProcProcess::ProcProcess(Options options)
    : options_(std::move(options)), ns_per_tick_(static_cast<double>(kNsPerSecond) / static_cast<double>(sysconf(_SC_CLK_TCK))) {
  Stop();
}

void ProcProcess::Sample(std::span<const ProcessKey> processes, MetricSink* sink) {
  Outcome outcome;
  const size_t count = std::min(processes.size(), kMostProcesses);
  if (turn_ >= processes.size()) turn_ = 0;
  for (size_t i = 0; i < count; ++i) AddProcess(processes[(turn_ + i) % processes.size()], &outcome, sink);
  turn_ += count;
  SetState(processes.size(), outcome);
}

void ProcProcess::AddProcess(ProcessKey process, Outcome* outcome, MetricSink* sink) const {
  const std::string path = fmt::format("{}/proc/{}", options_.root, process.pid.value);
  const unique_fd directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto stat = directory.ok() ? ParseProcStat(ReadAt(directory, "stat").text) : std::nullopt;
  if (!stat || stat->start_ticks != process.start_ticks) {
    ++outcome->gone;
    return;
  }
  ++outcome->read;
  const double cpu_ns = static_cast<double>(stat->cpu_ticks) * ns_per_tick_;
  sink->Add({.name = "process.cpu_ns_total", .process = process, .value = cpu_ns});
  sink->Add({.name = "process.threads", .process = process, .value = static_cast<double>(stat->threads)});
  AddKeys(kStatus, process, ReadAt(directory, "status").text, sink);
  const FileText io = ReadAt(directory, "io");
  if (io.error == EACCES || io.error == EPERM) ++outcome->io_denied;
  AddKeys(kIo, process, io.text, sink);
}

void ProcProcess::SetState(size_t tracked, const Outcome& outcome) {
  CollectorState state{"process", "full", "on", "", "", {}};
  state.numbers = {{"processes", std::to_string(tracked)},
                   {"read", std::to_string(outcome.read)},
                   {"gone", std::to_string(outcome.gone)},
                   {"without I/O", std::to_string(outcome.io_denied)}};
  if (tracked > kMostProcesses) {
    const size_t turns = (tracked + kMostProcesses - 1) / kMostProcesses;
    state.reason = fmt::format("{} processes are tracked and {} are read at a time: each has values every {} samples", tracked,
                               kMostProcesses, turns);
  }
  if (outcome.io_denied > 0) {
    state.level = "own";
    state.reason += fmt::format("{}/proc/PID/io of {} of {} processes: {}", state.reason.empty() ? "" : "; ", outcome.io_denied,
                                outcome.read, strerror(EACCES));
    state.next_step = "give the daemon CAP_SYS_PTRACE, or run it as the user of the jobs; until then they have no I/O values";
  }
  state_.Set(std::move(state));
}

}  // namespace stepscope
