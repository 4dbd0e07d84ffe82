// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/perf_counters.h"

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/status.h"
#include "daemon/collector/host/cpu_list.h"

namespace stepscope {
namespace {

constexpr size_t kHardwarePerGroup = 3;
constexpr size_t kHeaderWords = 3;
constexpr size_t kMostMembers = 64;
// A CPU whose counters could not be opened is tried again after this many ticks, or as soon as the list of online CPUs changes.
constexpr int kTicksPerRetry = 100;
constexpr int kTicksPerLook = 10;  // at the list of online CPUs

int OpenInKernel(const PerfEvent& event, int cpu, int group_fd) {
  perf_event_attr attr{};
  attr.size = sizeof(attr);
  attr.type = event.type;
  attr.config = event.config;
  attr.config1 = event.config1;
  attr.config2 = event.config2;
  attr.disabled = group_fd < 0;
  attr.exclude_user = event.exclude_user;
  attr.exclude_kernel = event.exclude_kernel;
  attr.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  const long fd = syscall(SYS_perf_event_open, &attr, -1, cpu, group_fd, PERF_FLAG_FD_CLOEXEC);
  return fd < 0 ? -errno : static_cast<int>(fd);
}

void EnableInKernel(int fd) { ioctl(fd, PERF_EVENT_IOC_ENABLE, 0); }

ssize_t ReadFromKernel(int fd, std::span<uint64_t> words) {
  const ssize_t got = read(fd, words.data(), words.size_bytes());
  return got < 0 ? -errno : got;
}

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    const size_t first = text.find_first_not_of(" \t", begin);
    const size_t last = text.find_last_not_of(" \t", end == 0 ? 0 : end - 1);
    if (first < end && last != std::string::npos) parts.push_back(text.substr(first, last - first + 1));
    begin = end + 1;
  }
  return parts;
}

std::string MetricName(const PerfEvent& event) {
  const bool is_clock =
      event.is_software && (event.config == PERF_COUNT_SW_CPU_CLOCK || event.config == PERF_COUNT_SW_TASK_CLOCK);
  return fmt::format("perf.{}{}_total", event.name, is_clock ? "_ns" : "");
}

const char* NextStep(int error) {
  switch (error) {
    case 0:
    case EINVAL:
      return "choose another event in counters.events; `perf list` names those of this machine";
    case EACCES:
    case EPERM:
      return "give the daemon CAP_PERFMON and a seccomp profile that allows perf_event_open, or set kernel.perf_event_paranoid "
             "to 0";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files";
    case ENOSYS:
      return "use a kernel with CONFIG_PERF_EVENTS";
    default:
      return "use a machine, or a type of virtual machine, that exposes its performance counters";
  }
}

}  // namespace

PerfCalls KernelPerfCalls() { return {OpenInKernel, EnableInKernel, ReadFromKernel}; }

PerfCounters::PerfCounters(Options options, PerfCalls calls) : options_(std::move(options)), calls_(std::move(calls)) {
  ChooseEvents();  // opens and closes each once, so that doctor knows before the first job
  SetState("idle");
}

void PerfCounters::Start() {
  ChooseEvents();
  FollowCpus();
  SetState("on");
}

void PerfCounters::Stop() {
  cpus_.clear();
  online_.clear();
  SetState("idle");
}

void PerfCounters::ChooseEvents() {
  counters_.clear();
  missing_.clear();
  const int cpu = OnlineCpus(options_.root).front();
  for (const std::string& wish : Split(options_.events, ',')) {
    const std::vector<std::string> names = Split(wish, '|');
    if (std::optional<Counter> counter = names.empty() ? std::nullopt : Choose(names, cpu)) counters_.push_back(*counter);
  }
  std::ranges::stable_partition(counters_, [](const Counter& counter) { return !counter.event.is_software; });
}

std::optional<PerfCounters::Counter> PerfCounters::Choose(const std::vector<std::string>& names, int cpu) {
  std::optional<Missing> why;
  for (const std::string& name : names) {
    const absl::StatusOr<PerfEvent> event = FindPerfEvent(name);
    if (!event.ok()) {
      if (!why) why = {std::string(event.status().message()), 0};
      continue;
    }
    const unique_fd fd(calls_.open(*event, cpu, -1));
    if (fd.ok()) return Counter{*event, MetricName(*event)};
    const int error = -fd.get();
    const absl::Status status = ErrnoStatus(error, fmt::format("perf_event_open({}) on cpu {}", name, cpu));
    if (!why || why->error == 0) why = {std::string(status.message()), error};
  }
  if (why) missing_.push_back(*std::move(why));
  return std::nullopt;
}

void PerfCounters::SetState(const char* when_counting) {
  CollectorState state{"counters", "full", when_counting, "", "", {}};
  const auto is_hardware = [](const Counter& counter) { return !counter.event.is_software; };
  const auto hardware = static_cast<size_t>(std::ranges::count_if(counters_, is_hardware));
  state.numbers = {{"hardware", std::to_string(hardware)},
                   {"software", std::to_string(counters_.size() - hardware)},
                   {"missing", std::to_string(missing_.size())}};
  if (counters_.empty()) {
    state.level = "none";
    state.state = "unavailable";
    state.reason = missing_.empty() ? "counters.events names no event" : missing_.front().reason;
  } else if (!missing_.empty() && hardware == 0) {
    state.reason = fmt::format("hardware counters not available ({}); software counters only", missing_.front().reason);
  } else if (!missing_.empty()) {
    state.reason = fmt::format("{} of {} counters not available ({})", missing_.size(), missing_.size() + counters_.size(),
                               missing_.front().reason);
  }
  if (!state.reason.empty()) state.next_step = NextStep(missing_.empty() ? 0 : missing_.front().error);
  state_.Set(std::move(state));
}

void PerfCounters::FollowCpus() {
  --ticks_until_retry_;
  if (ticks_until_retry_ > 0 && ticks_until_retry_ % kTicksPerLook != 0) return;
  std::vector<int> online = OnlineCpus(options_.root);
  if (online == online_ && ticks_until_retry_ > 0) return;
  online_ = std::move(online);
  ticks_until_retry_ = kTicksPerRetry;
  for (auto& [number, cpu] : cpus_) {
    const bool is_online = std::ranges::find(online_, number) != online_.end();
    const bool is_dead = std::ranges::any_of(cpu.groups, &Group::is_dead);
    if (!is_online || is_dead) cpu.groups.clear();  // the kernel stopped counting; the totals stand
  }
  for (const int number : online_) {
    if (const auto it = cpus_.find(number); it == cpus_.end() || it->second.groups.empty()) OpenCpu(number);
  }
}

void PerfCounters::OpenCpu(int number) {
  Cpu& cpu = cpus_[number];
  cpu.instance = fmt::format("cpu{}", number);
  cpu.totals.resize(counters_.size());
  for (size_t i = 0; i < counters_.size(); ++i) OpenCounter(number, i, &cpu.groups);
  for (const Group& group : cpu.groups) calls_.enable(group.fds[0].get());
}

void PerfCounters::OpenCounter(int cpu, size_t counter, std::vector<Group>* groups) {
  const PerfEvent& event = counters_[counter].event;
  const auto takes = [&](const Group& group) {
    const bool is_same_kind = counters_[group.counters[0]].event.is_software == event.is_software;
    return is_same_kind && group.counters.size() < (event.is_software ? kMostMembers : kHardwarePerGroup);
  };
  if (!groups->empty() && takes(groups->back())) {
    Group& group = groups->back();
    unique_fd member(calls_.open(event, cpu, group.fds[0].get()));
    if (member.ok()) {
      group.fds.push_back(std::move(member));
      group.counters.push_back(counter);
      group.counts.push_back(0);
      return;
    }
  }
  // Events that cannot be counted at once cannot be in a group; alone it takes its turn. A CPU that just went offline refuses
  // all: it is tried again at the next tick if it is online then.
  unique_fd leader(calls_.open(event, cpu, -1));
  if (!leader.ok()) return;
  Group group;
  group.fds.push_back(std::move(leader));
  group.counters = {counter};
  group.counts = {0};
  groups->push_back(std::move(group));
}

void PerfCounters::Sample(std::span<const ProcessKey>, MetricSink* sink) {
  FollowCpus();
  const size_t counters = counters_.size();
  Sums sums{std::vector<double>(counters), std::vector<bool>(counters), std::vector<bool>(counters)};
  for (auto& [number, cpu] : cpus_) {
    for (Group& group : cpu.groups) ReadGroup(cpu, group, &sums, sink);
    for (size_t i = 0; i < counters; ++i) sums.totals[i] += cpu.totals[i];
  }
  for (size_t i = 0; i < counters; ++i) {
    if (sums.counted[i]) sink->Add({.name = counters_[i].metric, .value = sums.totals[i], .scaled = sums.scaled[i]});
  }
}

void PerfCounters::ReadGroup(Cpu& cpu, Group& group, Sums* sums, MetricSink* sink) {
  std::array<uint64_t, kHeaderWords + kMostMembers> words{};
  const size_t wanted = kHeaderWords + group.counters.size();
  const ssize_t got = calls_.read(group.fds[0].get(), std::span(words).first(wanted));
  if (got != static_cast<ssize_t>(wanted * sizeof(uint64_t)) || words[0] != group.counters.size()) return;
  const uint64_t enabled_ns = words[1] - group.enabled_ns;
  const uint64_t running_ns = words[2] - group.running_ns;
  if (enabled_ns == 0) {
    group.is_dead = true;
    ticks_until_retry_ = 0;
    return;
  }
  const bool is_scaled = running_ns < enabled_ns;
  for (const size_t counter : group.counters) sums->scaled[counter] = sums->scaled[counter] || is_scaled;
  if (running_ns == 0) return;  // no turn yet; the next one stands for this time too
  const double scale = is_scaled ? static_cast<double>(enabled_ns) / static_cast<double>(running_ns) : 1.0;
  for (size_t i = 0; i < group.counters.size(); ++i) {
    const uint64_t count = words[kHeaderWords + i];
    double& total = cpu.totals[group.counters[i]];
    total += static_cast<double>(count - group.counts[i]) * scale;
    group.counts[i] = count;
    sums->counted[group.counters[i]] = true;
    sink->Add({.name = counters_[group.counters[i]].metric, .instance = cpu.instance, .value = total, .scaled = is_scaled});
  }
  group.enabled_ns = words[1];
  group.running_ns = words[2];
}

}  // namespace stepscope
