// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/sched_programs.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "base/status.h"
#include "bpf/occupants.h"
#include "sched.skel.h"

namespace stepscope {
namespace {

constexpr std::string_view kRightsStep =
    "give the daemon CAP_BPF and CAP_PERFMON (in a container: --cap-add, and a seccomp profile that allows bpf)";
constexpr std::string_view kBtfStep = "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y (5.15 or later)";

// One CPU's value of the "interrupts" map as user space sees it: padded to 8 bytes.
struct alignas(8) interrupt_context {
  uint8_t marks[4] = {};
  uint32_t net_sender = 0;
};

// libbpf explains a failed load only through this callback; the last warning goes into our Status.
thread_local std::string g_last_warning;

int KeepWarning(libbpf_print_level level, const char* format, va_list args) {
  if (level != LIBBPF_WARN) return 0;
  char line[512];
  vsnprintf(line, sizeof(line), format, args);
  std::string text(line);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  // The verifier's log follows the reason; one line is what an operator can use.
  if (text.find("BEGIN PROG LOAD LOG") == std::string::npos) g_last_warning = text.substr(0, text.find('\n'));
  return 0;
}

absl::Status StepError(int error_number, std::string_view step) {
  std::string_view next = error_number == EPERM || error_number == EACCES ? kRightsStep : kBtfStep;
  std::string what = g_last_warning.empty() ? std::string(step) : fmt::format("{} ({})", step, g_last_warning);
  return ErrnoStatus(error_number, what, next);
}

// Whether the kernel's sched_switch tracepoint hands over prev_state (context, preempt, prev, next, prev_state).
bool SwitchCarriesState(const std::string& btf_path) {
  btf* types = btf__parse(btf_path.c_str(), nullptr);
  if (types == nullptr) return false;
  bool carries = false;
  int id = btf__find_by_name_kind(types, "btf_trace_sched_switch", BTF_KIND_TYPEDEF);
  if (id > 0) {
    const btf_type* pointer = btf__type_by_id(types, btf__type_by_id(types, static_cast<uint32_t>(id))->type);
    const btf_type* prototype = btf__type_by_id(types, pointer->type);
    carries = btf_is_func_proto(prototype) && btf_vlen(prototype) >= 5;
  }
  btf__free(types);
  return carries;
}

absl::Status CheckSizes(const SchedProgramOptions& options) {
  if (!std::has_single_bit(options.ring_bytes) || options.ring_bytes < static_cast<uint32_t>(getpagesize())) {
    return absl::InvalidArgumentError(fmt::format(
        "sched ring of {} bytes: must be a power of two of at least one page; set collector.ring_bytes", options.ring_bytes));
  }
  if (options.cpus_per_ring == 0) return absl::InvalidArgumentError("sched cpus_per_ring is 0; use 16");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SchedPrograms>> SchedPrograms::Load(const SchedProgramOptions& options, RecordHandler on_record) {
  STEPSCOPE_RETURN_IF_ERROR(CheckSizes(options));
  if (access(options.btf_path.c_str(), R_OK) != 0) {
    return ErrnoStatus(errno, fmt::format("scheduling records need kernel type information: read({})", options.btf_path),
                       kBtfStep);
  }
  std::unique_ptr<SchedPrograms> programs(new SchedPrograms);
  programs->on_record_ = std::move(on_record);
  libbpf_print_fn_t previous = libbpf_set_print(KeepWarning);
  g_last_warning.clear();
  absl::Status status = programs->OpenAndLoad(options);
  if (status.ok()) status = programs->CreateRings(options);
  // Attaching needs rights of its own: find out now, not when the first job starts.
  if (status.ok()) status = programs->Attach();
  programs->Detach();
  libbpf_set_print(previous);
  if (!status.ok()) return status;
  return programs;
}

absl::Status SchedPrograms::OpenAndLoad(const SchedProgramOptions& options) {
  skeleton_ = sched::open();
  if (skeleton_ == nullptr) return StepError(errno, "opening the scheduling programs");
  bool with_state = !options.use_task_state && SwitchCarriesState(options.btf_path);
  bpf_program__set_autoload(skeleton_->progs.sched_switch, with_state);
  bpf_program__set_autoload(skeleton_->progs.sched_switch_no_state, !with_state);
  bpf_program__set_autoattach(skeleton_->progs.prepare_threads, false);
  skeleton_->rodata->cpus_per_ring = options.cpus_per_ring;
  skeleton_->rodata->as_histogram = options.as_histogram;
  if (options.as_histogram) bpf_map__set_max_entries(skeleton_->maps.histograms, STEPSCOPE_CLASS_COUNT);
  bpf_map__set_max_entries(skeleton_->maps.histories, static_cast<uint32_t>(libbpf_num_possible_cpus()));
  skeleton_->rodata->wake_bytes = options.ring_bytes / 8;
  int error = sched::load(skeleton_);
  if (error != 0) return StepError(-error, "loading the scheduling programs");
  return absl::OkStatus();
}

absl::Status SchedPrograms::CreateRings(const SchedProgramOptions& options) {
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.ok()) return ErrnoStatus(errno, "epoll_create1 for the scheduling rings");
  uint32_t cpus = static_cast<uint32_t>(libbpf_num_possible_cpus());
  uint32_t count = (cpus + options.cpus_per_ring - 1) / options.cpus_per_ring;
  if (count > bpf_map__max_entries(skeleton_->maps.rings)) {
    return absl::InvalidArgumentError(fmt::format("{} CPUs with {} per ring need {} rings, more than {}; raise cpus_per_ring",
                                                  cpus, options.cpus_per_ring, count,
                                                  bpf_map__max_entries(skeleton_->maps.rings)));
  }
  for (uint32_t i = 0; i < count; ++i) {
    unique_fd ring(bpf_map_create(BPF_MAP_TYPE_RINGBUF, "stepscope_ring", 0, 0, options.ring_bytes, nullptr));
    if (!ring.ok()) return StepError(errno, fmt::format("creating scheduling ring {} of {} bytes", i, options.ring_bytes));
    int fd = ring.get();
    if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.rings), &i, &fd, 0) != 0)
      return StepError(errno, "publishing a scheduling ring");
    if (reader_ == nullptr)
      reader_ = ring_buffer__new(fd, &SchedPrograms::OnRecord, this, nullptr);
    else if (ring_buffer__add(reader_, fd, &SchedPrograms::OnRecord, this) != 0)
      return StepError(errno, "mapping a scheduling ring");
    if (reader_ == nullptr) return StepError(errno, "mapping a scheduling ring");
    // Edge-triggered: a level would be reported for any byte in the ring and turn the timer into a busy loop.
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return ErrnoStatus(errno, "watching a scheduling ring");
    rings_.push_back(std::move(ring));
  }
  return absl::OkStatus();
}

SchedPrograms::~SchedPrograms() {
  Detach();
  if (reader_ != nullptr) ring_buffer__free(reader_);
  if (skeleton_ != nullptr) sched::destroy(skeleton_);
}

absl::Status SchedPrograms::Attach() {
  if (attached_) return absl::OkStatus();
  ++skeleton_->data->attachment;
  STEPSCOPE_RETURN_IF_ERROR(ForgetCpus());
  int error = sched::attach(skeleton_);
  if (error != 0) {
    sched::detach(skeleton_);
    return StepError(-error, "attaching the scheduling programs");
  }
  attached_ = true;
  return absl::OkStatus();
}

// What CPUs did before: a mark set by a beginning whose end came after the last detachment would name no task as a waker, and a
// turn that was on then would be taken to have lasted ever since.
absl::Status SchedPrograms::ForgetCpus() {
  const auto cpus = static_cast<uint32_t>(libbpf_num_possible_cpus());
  std::vector<interrupt_context> clear(cpus);
  uint32_t zero = 0;
  if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.interrupts), &zero, clear.data(), 0) != 0) {
    return StepError(errno, "clearing the interrupt marks");
  }
  const stepscope_cpu_history nothing{};
  for (uint32_t cpu = 0; cpu < cpus; ++cpu) {
    if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.histories), &cpu, &nothing, 0) != 0) {
      return StepError(errno, "clearing the history of a CPU");
    }
  }
  return absl::OkStatus();
}

void SchedPrograms::Detach() {
  if (skeleton_ == nullptr) return;
  sched::detach(skeleton_);
  attached_ = false;
}

absl::Status SchedPrograms::PrepareThreads(int32_t tgid) {
  bpf_iter_link_info only{};
  only.task.pid = static_cast<uint32_t>(tgid);
  LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = &only, .link_info_len = sizeof(only));
  const bpf_program* program = skeleton_->progs.prepare_threads;
  std::unique_ptr<bpf_link, decltype(&bpf_link__destroy)> link(bpf_program__attach_iter(program, &options), &bpf_link__destroy);
  // Kernels before 6.1 cannot be told which process: they visit every thread, and the program picks.
  if (link == nullptr) link.reset(bpf_program__attach_iter(program, nullptr));
  if (link == nullptr) return StepError(errno, "preparing a process's threads");
  skeleton_->data->prepared_tgid = static_cast<uint32_t>(tgid);
  const unique_fd pass(bpf_iter_create(bpf_link__fd(link.get())));
  if (!pass.ok()) return ErrnoStatus(errno, "preparing a process's threads");
  char nothing;
  while (read(pass.get(), &nothing, 1) < 0) {
    if (errno != EINTR && errno != EAGAIN) return ErrnoStatus(errno, "preparing a process's threads");
  }
  return absl::OkStatus();
}

void SchedPrograms::SetClass(int32_t tgid, uint8_t klass) {
  if (tgid > 0 && static_cast<uint32_t>(tgid) < STEPSCOPE_MAX_TGID) skeleton_->bss->class_of[tgid] = klass;
}

uint8_t SchedPrograms::ClassOf(int32_t tgid) const {
  return tgid > 0 && static_cast<uint32_t>(tgid) < STEPSCOPE_MAX_TGID ? skeleton_->bss->class_of[tgid] : STEPSCOPE_CLASS_OUT;
}

bool SchedPrograms::ClearClass(uint8_t klass) {
  uint8_t* const begin = skeleton_->bss->class_of;
  uint8_t* const end = begin + STEPSCOPE_MAX_TGID;
  bool found = false;
  for (uint8_t* at = begin; (at = static_cast<uint8_t*>(memchr(at, klass, static_cast<size_t>(end - at)))) != nullptr; ++at) {
    *at = STEPSCOPE_CLASS_OUT;
    found = true;
  }
  return found;
}

int SchedPrograms::OnRecord(void* self, void* data, size_t size) {
  static_cast<SchedPrograms*>(self)->on_record_({static_cast<const std::byte*>(data), size});
  return 0;
}

absl::Status SchedPrograms::Consume() {
  int count = ring_buffer__consume(reader_);
  if (count < 0) return ErrnoStatus(-count, "reading the scheduling rings");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<stepscope_open_turn>> SchedPrograms::OpenTurns() const {
  const unique_fd pass(bpf_iter_create(bpf_link__fd(skeleton_->links.open_turns)));
  if (!pass.ok()) return ErrnoStatus(errno, "reading the threads' open turns");
  std::vector<stepscope_open_turn> turns;
  std::array<stepscope_open_turn, 256> chunk;
  size_t filled = 0;  // bytes of chunk
  while (true) {
    const ssize_t got = read(pass.get(), reinterpret_cast<char*>(chunk.data()) + filled, sizeof(chunk) - filled);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return ErrnoStatus(errno, "reading the threads' open turns");
    if (got == 0) return turns;
    filled += static_cast<size_t>(got);
    const size_t whole = filled / sizeof(chunk[0]);
    turns.insert(turns.end(), chunk.begin(), chunk.begin() + static_cast<ptrdiff_t>(whole));
    filled -= whole * sizeof(chunk[0]);
    std::memmove(chunk.data(), chunk.data() + whole, filled);
  }
}

absl::StatusOr<stepscope_sched_histogram> SchedPrograms::Histogram(uint8_t klass) const {
  std::vector<stepscope_sched_histogram> of_cpus(static_cast<size_t>(libbpf_num_possible_cpus()));
  uint32_t key = klass;
  if (bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.histograms), &key, of_cpus.data()) != 0) {
    return ErrnoStatus(errno, fmt::format("reading the scheduling histogram of class {}", klass));
  }
  stepscope_sched_histogram sum{};
  for (const stepscope_sched_histogram& cpu : of_cpus) {
    for (uint32_t i = 0; i < STEPSCOPE_HISTOGRAM_BUCKETS; ++i) {
      sum.waits[i] += cpu.waits[i];
      sum.turns[i] += cpu.turns[i];
    }
    sum.wait_ns += cpu.wait_ns;
    sum.run_ns += cpu.run_ns;
  }
  return sum;
}

absl::StatusOr<std::vector<stepscope_sched_books>> SchedPrograms::Books(uint8_t klass) const {
  std::vector<stepscope_sched_books> books(static_cast<size_t>(libbpf_num_possible_cpus()));
  uint32_t key = klass;
  if (bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.books), &key, books.data()) != 0) {
    return ErrnoStatus(errno, fmt::format("reading the scheduling books of class {}", klass));
  }
  return books;
}

}  // namespace stepscope
