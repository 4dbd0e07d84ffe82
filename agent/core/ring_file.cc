// SPDX-License-Identifier: Apache-2.0
#include "agent/core/ring_file.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "agent/core/kernel_call.h"

namespace stepscope::agent {
namespace {

// Newer than the oldest headers we build against.
constexpr long kMemfdCloexec = 1, kMemfdAllowSealing = 2, kMemfdNoExecSeal = 8;
constexpr long kAddSeals = 1033, kSealSeal = 1, kSealShrink = 2, kSealGrow = 4;
constexpr long kAdviseDontFork = 10, kAdvisePopulateWrite = 23;

constexpr stepscope_ring_kind kKinds[] = {
    {STEPSCOPE_RECORD_PAD, sizeof(stepscope_record)},
    {STEPSCOPE_RECORD_NAME, sizeof(stepscope_record_name)},
    {STEPSCOPE_RECORD_BEGIN, sizeof(stepscope_record_time)},
    {STEPSCOPE_RECORD_BEGIN_N, sizeof(stepscope_record_number)},
    {STEPSCOPE_RECORD_END, sizeof(stepscope_record_time)},
    {STEPSCOPE_RECORD_TOKEN_BEGIN, sizeof(stepscope_record_token)},
    {STEPSCOPE_RECORD_TOKEN_END, sizeof(stepscope_record_token)},
    {STEPSCOPE_RECORD_MARK, sizeof(stepscope_record_number)},
    {STEPSCOPE_RECORD_COUNTER, sizeof(stepscope_record_number)},
    {STEPSCOPE_RECORD_INFO, sizeof(stepscope_record_info)},
    {STEPSCOPE_RECORD_WINDOW, sizeof(stepscope_record_number)},
    {STEPSCOPE_RECORD_LOST, sizeof(stepscope_record_lost)},
    {STEPSCOPE_RECORD_THREAD, sizeof(stepscope_record_thread)},
    {STEPSCOPE_RECORD_ANCHOR, sizeof(stepscope_record_anchor)},
    {STEPSCOPE_RECORD_GIL, sizeof(stepscope_record_range)},
};

// RLIMIT_FSIZE counts for memfds too, and going over it would raise SIGXFSZ in the host.
uint64_t FileSizeLimit() {
  rlimit limit{};
  if (IsError(KernelCall(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, PointerArgument(&limit)))) return STEPSCOPE_RING_FILE_MAX_BYTES;
  return limit.rlim_cur < STEPSCOPE_RING_FILE_MAX_BYTES ? limit.rlim_cur : STEPSCOPE_RING_FILE_MAX_BYTES;
}

constexpr uint64_t kThreadRingsOffset = STEPSCOPE_RING_ALIGNMENT + STEPSCOPE_RING_SENDER_BYTES;

uint64_t Stride(uint64_t ring_bytes) { return ring_bytes < STEPSCOPE_RING_ALIGNMENT ? STEPSCOPE_RING_ALIGNMENT : ring_bytes; }

}  // namespace

RingFile::Failure RingFile::Create(const uint8_t session[16], uint32_t clock_kind, uint64_t thread_ring_bytes) {
  const uint64_t limit = FileSizeLimit();
  const uint64_t stride = Stride(thread_ring_bytes);
  if (limit < kThreadRingsOffset + stride) return {"file size limit", 0};
  uint64_t thread_rings = (limit - kThreadRingsOffset) / stride;
  if (thread_rings > STEPSCOPE_RING_SLOTS - 1) thread_rings = STEPSCOPE_RING_SLOTS - 1;
  ring_count_ = static_cast<uint32_t>(thread_rings) + 1;
  thread_ring_bytes_ = thread_ring_bytes;
  file_bytes_ = kThreadRingsOffset + thread_rings * stride;
  Failure failure = MakeSealedMemory();
  if (failure.step == nullptr) WriteHeader(session, clock_kind);
  return failure;
}

RingFile::Failure RingFile::MakeSealedMemory() {
  const long name = PointerArgument("stepscope");
  long fd = KernelCall(SYS_memfd_create, name, kMemfdCloexec | kMemfdAllowSealing | kMemfdNoExecSeal);
  if (fd == -EINVAL) fd = KernelCall(SYS_memfd_create, name, kMemfdCloexec | kMemfdAllowSealing);
  if (IsError(fd)) return {"memfd_create", fd};
  fd_.Hold(static_cast<int>(fd));
  fd = fd_.Use();
  if (fd < 0) return {"fstat", 0};
  const char* step = "ftruncate";
  long result = KernelCall(SYS_ftruncate, fd, static_cast<long>(file_bytes_));
  if (!IsError(result)) {
    step = "sealing";
    result = KernelCall(SYS_fcntl, fd, kAddSeals, kSealShrink | kSealGrow | kSealSeal);
  }
  if (!IsError(result)) {
    step = "mmap";
    result = KernelCall(SYS_mmap, 0, static_cast<long>(file_bytes_), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  if (IsError(result)) {
    fd_.Close();
    return {step, result};
  }
  base_ = static_cast<uint8_t*>(PointerResult(result));
  KernelCall(SYS_madvise, PointerArgument(base_), static_cast<long>(file_bytes_), kAdviseDontFork);
  if (MakePagesPresent(0, STEPSCOPE_RING_ALIGNMENT)) return {nullptr, 0};
  KernelCall(SYS_munmap, PointerArgument(base_), static_cast<long>(file_bytes_));
  base_ = nullptr;
  fd_.Close();
  return {"memory for the header", 0};
}

void RingFile::WriteHeader(const uint8_t session[16], uint32_t clock_kind) {
  stepscope_ring_header* h = header();
  h->version = STEPSCOPE_RING_VERSION;
  h->header_bytes = STEPSCOPE_RING_HEADER_BYTES;
  memcpy(h->session, session, sizeof(h->session));
  h->pid = ProcessId();
  h->clock_kind = clock_kind;
  h->file_bytes = file_bytes_;
  h->ring_slots = STEPSCOPE_RING_SLOTS;
  h->descriptor_bytes = STEPSCOPE_RING_DESCRIPTOR_BYTES;
  h->kind_count = sizeof(kKinds) / sizeof(kKinds[0]);
  memcpy(h->kinds, kKinds, sizeof(kKinds));
  __atomic_store_n(&h->magic, STEPSCOPE_RING_MAGIC, __ATOMIC_RELEASE);
}

uint64_t RingFile::ThreadRingOffset(uint32_t slot) const { return kThreadRingsOffset + (slot - 1) * Stride(thread_ring_bytes_); }

// Asks for the memory by fallocate, which can say no: touching a page that cannot be had would kill the host.
bool RingFile::MakePagesPresent(uint64_t offset, uint64_t bytes) {
  const int fd = fd_.Use();
  if (fd < 0)  // the host closed it
    return !IsError(KernelCall(SYS_madvise, PointerArgument(base_ + offset), static_cast<long>(bytes), kAdvisePopulateWrite));
  constexpr int kMostInterruptions = 1000;
  constexpr long kKeepSize = 1;  // should the host have taken the number this very moment, its file stays as long as it was
  for (int i = 0; i < kMostInterruptions; ++i) {
    const long result = KernelCall(SYS_fallocate, fd, kKeepSize, static_cast<long>(offset), static_cast<long>(bytes));
    if (result != -EINTR) return !IsError(result);
  }
  return false;
}

// So that no record waits in a page fault. A kernel before 5.14 does not know the call and maps each page when it is written
// first.
void RingFile::MapPages(uint64_t offset, uint64_t bytes) {
  KernelCall(SYS_madvise, PointerArgument(base_ + offset), static_cast<long>(bytes), kAdvisePopulateWrite);
}

bool RingFile::Claim(uint32_t slot) {
  uint32_t expected = STEPSCOPE_RING_FREE;
  return __atomic_compare_exchange_n(&descriptor(slot)->state, &expected, STEPSCOPE_RING_ACTIVE, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED);
}

// Before the first record of the ring is committed, so whoever sees the record finds the ring.
void RingFile::NoteUsed(uint32_t slot) {
  uint32_t used = rings_used();
  while (used <= slot && !__atomic_compare_exchange_n(&rings_used_, &used, slot + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
  }
}

void RingFile::Describe(uint32_t slot, uint64_t offset, uint64_t bytes, int32_t tid, const char comm[16], uint64_t ticks) {
  stepscope_ring_descriptor* d = descriptor(slot);
  d->data_offset = offset;
  d->data_bytes = bytes;
  d->opened_ticks = ticks;
  memcpy(d->comm, comm, sizeof(d->comm));
  __atomic_store_n(&d->tid, tid, __ATOMIC_RELEASE);  // last: from here on the sender's sweep knows an owner
}

uint32_t RingFile::AcquireThreadRing(int32_t tid, const char comm[16], uint64_t ticks) {
  for (uint32_t slot = 1; slot < ring_count_; ++slot) {
    if (state(slot) != STEPSCOPE_RING_FREE || !Claim(slot)) continue;
    uint64_t offset = ThreadRingOffset(slot);
    if (!MakePagesPresent(offset, thread_ring_bytes_)) {
      __atomic_store_n(&descriptor(slot)->state, STEPSCOPE_RING_FREE, __ATOMIC_RELEASE);
      return kNone;
    }
    MapPages(offset, thread_ring_bytes_);
    NoteUsed(slot);
    Describe(slot, offset, thread_ring_bytes_, tid, comm, ticks);
    return slot;
  }
  return kNone;
}

void RingFile::AcquireSenderRing(int32_t tid, const char comm[16], uint64_t ticks) {
  if (Claim(kSenderRing)) Describe(kSenderRing, STEPSCOPE_RING_ALIGNMENT, STEPSCOPE_RING_SENDER_BYTES, tid, comm, ticks);
}

void RingFile::Retire(uint32_t slot) {
  uint32_t expected = STEPSCOPE_RING_ACTIVE;
  __atomic_compare_exchange_n(&descriptor(slot)->state, &expected, STEPSCOPE_RING_RETIRED, false, __ATOMIC_ACQ_REL,
                              __ATOMIC_RELAXED);
}

void RingFile::Recycle(uint32_t slot) {
  stepscope_ring_descriptor* d = descriptor(slot);
  __atomic_store_n(&d->tid, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&d->head, 0, __ATOMIC_RELAXED);  // before the generation: old bytes never look like the new one's
  __atomic_store_n(&d->tail, 0, __ATOMIC_RELAXED);
  d->lost_records = d->lost_bytes = d->lost_reported = d->lost_first_ticks = d->lost_last_ticks = 0;
  __atomic_store_n(&d->generation, d->generation + 1, __ATOMIC_RELEASE);
  __atomic_store_n(&d->state, STEPSCOPE_RING_FREE, __ATOMIC_RELEASE);
}

void RingFile::CountWithoutRing(uint64_t records, uint64_t first_ticks, uint64_t last_ticks) {
  stepscope_ring_header* h = header();
  uint64_t none = 0;
  __atomic_compare_exchange_n(&h->no_ring_first_ticks, &none, first_ticks, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  __atomic_store_n(&h->no_ring_last_ticks, last_ticks, __ATOMIC_RELAXED);
  __atomic_fetch_add(&h->no_ring_lost, records, __ATOMIC_RELAXED);
}

}  // namespace stepscope::agent
