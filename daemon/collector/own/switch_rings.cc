// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/own/switch_rings.h"

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/status.h"

namespace stepscope {
namespace {

constexpr std::string_view kPerfStep =
    "set kernel.perf_event_paranoid to 2 or less, or give CAP_PERFMON, and in a container allow perf_event_open in its seccomp "
    "profile";

int PerfEventOpen(const perf_event_attr& attr, int32_t tid, int cpu) {
  return static_cast<int>(syscall(SYS_perf_event_open, &attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC));
}

// Says nothing itself; it exists because a ring belongs to an event, and those of followed threads come and go.
perf_event_attr RingOwner(size_t data_bytes) {
  perf_event_attr attr = SwitchEvent();
  attr.inherit = 0;
  attr.context_switch = 0;
  attr.task = 0;
  attr.comm = 0;
  attr.comm_exec = 0;
  attr.watermark = 1;
  attr.wakeup_watermark = static_cast<uint32_t>(data_bytes / 4);
  return attr;
}

}  // namespace

std::span<const std::byte> SwitchRing::RecordAt(uint64_t position, uint64_t head) {
  const size_t page = static_cast<size_t>(getpagesize());
  const std::byte* data = static_cast<const std::byte*>(map_) + page;
  const size_t offset = position & (data_bytes_ - 1);
  perf_event_header header;
  if (head - position < sizeof(header)) return {};
  // Records are multiples of 8 bytes, so a header never wraps.
  std::memcpy(&header, data + offset, sizeof(header));
  if (header.size < sizeof(header) || header.size > head - position || header.size % 8 != 0) return {};
  if (offset + header.size <= data_bytes_) return {data + offset, header.size};
  joined_.resize(header.size);
  const size_t before_end = data_bytes_ - offset;
  std::memcpy(joined_.data(), data + offset, before_end);
  std::memcpy(joined_.data() + before_end, data, header.size - before_end);
  return joined_;
}

bool SwitchRing::Read(const std::function<void(std::span<const std::byte>)>& on_record) {
  auto* control = static_cast<perf_event_mmap_page*>(map_);
  const uint64_t head = std::atomic_ref(control->data_head).load(std::memory_order_acquire);
  uint64_t position = control->data_tail;
  bool whole = head - position <= data_bytes_;
  while (whole && position != head) {
    const std::span<const std::byte> record = RecordAt(position, head);
    whole = !record.empty();
    if (!whole) break;
    on_record(record);
    position += record.size();
  }
  std::atomic_ref(control->data_tail).store(head, std::memory_order_release);
  return whole;
}

absl::StatusOr<std::unique_ptr<SwitchRings>> SwitchRings::Open(size_t data_pages) {
  std::unique_ptr<SwitchRings> rings(new SwitchRings);
  const long cpus = sysconf(_SC_NPROCESSORS_CONF);
  for (int cpu = 0; cpu < cpus; ++cpu) STEPSCOPE_RETURN_IF_ERROR(rings->OpenRing(cpu, data_pages));
  if (rings->rings_.empty()) return absl::UnavailableError("perf_event_open: no CPU is online; give the machine one");
  return rings;
}

absl::Status SwitchRings::OpenRing(int cpu, size_t& data_pages) {
  const size_t page = static_cast<size_t>(getpagesize());
  unique_fd owner(PerfEventOpen(RingOwner(data_pages * page), 0, cpu));
  if (!owner.ok() && (errno == ENODEV || errno == EINVAL) && cpu > 0) return absl::OkStatus();  // offline
  if (!owner.ok()) return ErrnoStatus(errno, fmt::format("perf_event_open (context switches, CPU {})", cpu), kPerfStep);
  void* map = MAP_FAILED;
  for (;;) {
    map = mmap(nullptr, (data_pages + 1) * page, PROT_READ | PROT_WRITE, MAP_SHARED, owner.get(), 0);
    if (map != MAP_FAILED || data_pages == 1 || (errno != EPERM && errno != ENOMEM)) break;
    data_pages /= 2;  // another profiler of this user holds part of what may be locked
  }
  if (map == MAP_FAILED) {
    return ErrnoStatus(errno, fmt::format("mapping the perf ring of CPU {}", cpu), "raise kernel.perf_event_mlock_kb");
  }
  wake_fds_.push_back(owner.get());
  readers_.emplace_back(map, data_pages * page);
  rings_.push_back({cpu, std::move(owner), map, (data_pages + 1) * page});
  return absl::OkStatus();
}

SwitchRings::~SwitchRings() {
  events_.clear();
  for (const CpuRing& ring : rings_) munmap(ring.map, ring.map_bytes);
}

absl::Status SwitchRings::Cover(RunId run, int32_t tid) {
  const perf_event_attr attr = SwitchEvent();
  std::vector<unique_fd> events;
  for (const CpuRing& ring : rings_) {
    unique_fd event(PerfEventOpen(attr, tid, ring.cpu));
    if (!event.ok() && errno == ENODEV) continue;  // went offline
    if (!event.ok() && (errno == EMFILE || errno == ENFILE)) {
      return ErrnoStatus(errno, fmt::format("perf_event_open of thread {} on CPU {}", tid, ring.cpu),
                         "raise LimitNOFILE: a thread found running needs one descriptor per CPU");
    }
    if (!event.ok()) return ErrnoStatus(errno, fmt::format("perf_event_open of thread {}", tid), kPerfStep);
    if (ioctl(event.get(), PERF_EVENT_IOC_SET_OUTPUT, ring.owner.get()) != 0) {
      return ErrnoStatus(errno, fmt::format("sharing the perf ring of CPU {}", ring.cpu));
    }
    events.push_back(std::move(event));
  }
  for (const unique_fd& event : events) ioctl(event.get(), PERF_EVENT_IOC_ENABLE, 0);
  auto& kept = events_[run];
  std::move(events.begin(), events.end(), std::back_inserter(kept));
  return absl::OkStatus();
}

void SwitchRings::Uncover(RunId run) { events_.erase(run); }

void SwitchRings::Read(const std::function<void(SwitchRecord)>& on_record) {
  for (SwitchRing& ring : readers_) {
    const bool whole = ring.Read([&](std::span<const std::byte> bytes) {
      if (auto record = ParseSwitchRecord(bytes)) on_record(*std::move(record));
    });
    if (!whole) ++malformed_;
  }
}

}  // namespace stepscope
