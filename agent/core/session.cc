// SPDX-License-Identifier: Apache-2.0
#include "agent/core/session.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>

#include "agent/core/facts.h"
#include "agent/core/kernel_call.h"

extern "C" {
extern char** environ;
// What pthread_atfork calls; that one lives in a static part of libc that is not linked here.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): libc's own name
int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(), void* library);
}

namespace stepscope::agent {
namespace {

constexpr uint64_t kMs = 1000000;
constexpr uint64_t kFirstRetry = 1000 * kMs;
constexpr uint64_t kLongestRetry = 10000 * kMs;
constexpr uint64_t kLongestWaitForOpener = 1000 * kMs;
constexpr uint64_t kSmallestRing = 4096;
constexpr uint64_t kLargestRing = STEPSCOPE_RING_SENDER_BYTES;

uint64_t CoarseNs() { return ClockNs(CLOCK_MONOTONIC_COARSE); }

bool NobodyListens(long connected) { return connected == -ENOENT || connected == -ECONNREFUSED || connected == -ENOTDIR; }

// STEPSCOPE_RING_BYTES, rounded down to a power of two.
uint64_t ThreadRingBytes() {
  const char* text = EnvironmentValue(environ, "STEPSCOPE_RING_BYTES");
  uint64_t wanted = 0;
  for (; text != nullptr && *text >= '0' && *text <= '9' && wanted < kLargestRing; ++text) {
    wanted = wanted * 10 + static_cast<uint64_t>(*text - '0');
  }
  if (wanted == 0) return STEPSCOPE_RING_THREAD_BYTES;
  uint64_t bytes = kSmallestRing;
  while (bytes * 2 <= wanted && bytes < kLargestRing) bytes *= 2;
  return bytes;
}

}  // namespace

constinit Session g_session;
thread_local constinit RingWriter* Session::thread_writer_ = nullptr;

void Session::Prepare() {
  uint32_t unprepared = 0;
  if (!__atomic_compare_exchange_n(&prepared_, &unprepared, 1u, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return;
  clock_.Choose();
  if (!guard_.Arm()) {
    never_ = true;
    state_.Set("off: fork guard unsupported by this kernel");
    __atomic_store_n(&next_try_ns_, UINT64_MAX, __ATOMIC_RELAXED);
    return SetPhase(kOff);
  }
  __register_atfork(nullptr, nullptr, OnForkInChild, nullptr);
}

RingWriter* Session::SlowThreadRing() {
  const bool off =
      phase() == kOff && guard_.Token() != ForkGuard::kWiped && CoarseNs() < __atomic_load_n(&next_try_ns_, __ATOMIC_RELAXED);
  RingWriter* writer = nullptr;
  if (!off) {
    const int host_errno = errno;
    if (Ready()) writer = AcquireRing();
    errno = host_errno;
  }
  if (writer == nullptr) CountDropped();
  return writer;
}

// True when a session is open in this very process.
bool Session::Ready() {
  Prepare();
  if (never_ || !guard_.armed()) return false;
  if (guard_.Token() == ForkGuard::kWiped && guard_.StartRenewal()) {
    StartOver(Copy::kUnannounced);
    guard_.Renew();
  }
  if (guard_.Token() <= ForkGuard::kBeingRenewed) return false;
  switch (phase()) {
    case kOpen:
      return true;
    case kIdle:
      return Open(kIdle);
    case kOff:
      return CoarseNs() >= __atomic_load_n(&next_try_ns_, __ATOMIC_RELAXED) && Open(kOff);
    case kOpening:
      return WaitWhileOpening();
  }
  return false;
}

bool Session::Open(Phase from) {
  uint32_t expected = from;
  if (!__atomic_compare_exchange_n(&phase_, &expected, static_cast<uint32_t>(kOpening), false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_ACQUIRE)) {
    return expected == kOpen || (expected == kOpening && WaitWhileOpening());
  }
  __atomic_store_n(&opener_tid_, ThreadId(), __ATOMIC_RELAXED);
  if (!ConnectAndSendHello()) {
    TurnOff();
    return false;
  }
  state_.Set("recording");
  SetPhase(kOpen);
  CountEarlyDrops();
  StartSender();
  return true;
}

// Another thread opens the session right now. (Or this one does, and a signal handler of the host came in between: waiting would
// be for ever.)
bool Session::WaitWhileOpening() {
  const bool interrupted_opener = __atomic_load_n(&opener_tid_, __ATOMIC_RELAXED) == ThreadId();
  const uint64_t deadline_ns = interrupted_opener ? 0 : ClockNs(CLOCK_MONOTONIC) + kLongestWaitForOpener;
  while (phase() == kOpening && ClockNs(CLOCK_MONOTONIC) < deadline_ns) {
    timespec pause{0, 50000};
    KernelCall(SYS_nanosleep, PointerArgument(&pause));
  }
  return phase() == kOpen;
}

// Drops from before the session was open, into the ring file's books.
void Session::CountEarlyDrops() {
  const uint64_t drops = __atomic_exchange_n(&early_dropped_, 0, __ATOMIC_SEQ_CST);
  const uint64_t now = clock_.Read();
  const uint64_t first = __atomic_load_n(&early_first_ticks_, __ATOMIC_RELAXED);
  if (drops != 0) file_.CountWithoutRing(drops, first != 0 ? first : now, now);
}

void Session::TurnOff() {
  socket_.Close();
  try_wait_ns_ = try_wait_ns_ == 0 ? kFirstRetry : try_wait_ns_ * 2 < kLongestRetry ? try_wait_ns_ * 2 : kLongestRetry;
  __atomic_store_n(&next_try_ns_, CoarseNs() + try_wait_ns_, __ATOMIC_RELAXED);
  SetPhase(kOff);
}

void Session::SetSocketPath(const char* folder, const char* name) {
  size_t bytes = 0;
  while (*folder != '\0' && bytes + 1 < sizeof(socket_path_)) socket_path_[bytes++] = *folder++;
  while (*name != '\0' && bytes + 1 < sizeof(socket_path_)) socket_path_[bytes++] = *name++;
  socket_path_[bytes] = '\0';
}

// Where a private daemon listens, as cli/private_daemon.cc has it. False without one, or when it does not fit.
bool Session::SetPrivateSocketPath() {
  struct Place {
    const char* variable;
    const char* socket;
  };
  constexpr Place kPlaces[] = {{"STEPSCOPE_DATA_DIR", "/agent.sock"},
                               {"XDG_DATA_HOME", "/stepscope/agent.sock"},
                               {"HOME", "/.local/share/stepscope/agent.sock"}};
  for (const Place& place : kPlaces) {
    const char* folder = EnvironmentValue(environ, place.variable);
    if (folder == nullptr || *folder == '\0') continue;
    SetSocketPath(folder, place.socket);
    return strlen(folder) + strlen(place.socket) < sizeof(socket_path_);
  }
  return false;
}

long Session::Connect() {
  const char* given = EnvironmentValue(environ, "STEPSCOPE_SOCKET");
  if (given != nullptr && *given != '\0') {
    SetSocketPath(given, "");
    return socket_.Connect(socket_path_);
  }
  long result = socket_.Connect(kDefaultSocketPath);
  if (NobodyListens(result) && SetPrivateSocketPath()) {
    result = socket_.Connect(socket_path_);
    if (!NobodyListens(result)) return result;
  }
  SetSocketPath(kDefaultSocketPath, "");
  return result;
}

bool Session::ConnectAndSendHello() {
  long result = Connect();
  if (NobodyListens(result)) {
    state_.Set("off: no daemon at ", socket_path_);
    return false;
  }
  if (result == -EACCES || result == -EPERM) {
    state_.Set("off: no permission to connect to ", socket_path_);
    return false;
  }
  if (IsError(result)) {
    state_.SetError("off: cannot connect to ", socket_path_, result);
    return false;
  }
  if (!MakeRingFile()) return false;
  opened_ticks_ = clock_.Read();
  result = socket_.SendHello(Hello(), file_.fd().Use());
  if (IsError(result)) state_.SetError("off: cannot greet the daemon at ", socket_path_, result);
  return !IsError(result);
}

bool Session::MakeRingFile() {
  if (writers_ == nullptr) writers_ = static_cast<RingWriter*>(MapPrivate(STEPSCOPE_RING_SLOTS * sizeof(RingWriter)));
  if (!has_exit_key_) has_exit_key_ = pthread_key_create(&exit_key_, OnThreadExit) == 0;
  if (writers_ == nullptr || !has_exit_key_) {
    state_.Set("off: no memory for the agent");
    return false;
  }
  if (file_.base() != nullptr && file_.fd().Use() >= 0) return true;
  if (!RandomBytes(session_id_, sizeof(session_id_))) {
    state_.Set("off: the kernel gives no random bytes");
    return false;
  }
  file_ = RingFile();
  const RingFile::Failure failure = file_.Create(session_id_, clock_.kind(), ThreadRingBytes());
  if (failure.step == nullptr) return true;
  state_.SetError("off: no ring: ", failure.step, failure.error);
  return false;
}

HelloContent Session::Hello() const {
  return {session_id_, clock_.kind(), opened_ticks_, file_.file_bytes(), has_parent_, parent_session_, environ};
}

void Session::StartSender() {
  const SenderParts parts{&file_, writers_, &clock_, &names_, &state_, socket_path_, Hello(), guard_.Token()};
  if (!sender_.Start(parts, &socket_)) {
    state_.Set("recording without a sender: no thread to be had; the daemon reads what is in the ring");
  } else {
    socket_.fd().Forget();
  }
}

RingWriter* Session::AcquireRing() {
  RingWriter::Owner owner{guard_.Token(), ThreadId(), {}};
  KernelCall(SYS_prctl, PR_GET_NAME, PointerArgument(owner.comm));
  const uint64_t ticks = clock_.Read();
  const uint32_t slot = file_.AcquireThreadRing(owner.tid, owner.comm, ticks);
  if (slot == RingFile::kNone) return nullptr;
  RingWriter* writer = &writers_[slot];
  writer->Open(file_.descriptor(slot), file_.data(slot), &names_, owner, ticks);
  pthread_setspecific(exit_key_, writer);
  thread_writer_ = writer;
  return writer;
}

void Session::OnThreadExit(void* exiting) {
  auto* writer = static_cast<RingWriter*>(exiting);
  Session& session = g_session;
  if (thread_writer_ == writer) thread_writer_ = nullptr;
  if (writer->fork_token() != session.guard_.Token()) return;
  writer->TellLoss();
  session.file_.Retire(static_cast<uint32_t>(writer - session.writers_));
}

void Session::OnForkInChild() {
  Session& session = g_session;
  thread_writer_ = nullptr;
  if (!session.guard_.armed() || !session.guard_.StartRenewal()) return;
  session.StartOver(Copy::kForked);
  session.guard_.Renew();
}

// The child's memory is a copy in which another process's session is described; nothing of it may be used or, where descriptors
// may be shared with the parent, closed. Ring memory was not copied at all: a call that the fork interrupted finds zeroes there.
void Session::StartOver(Copy copy) {
  const bool announced = copy == Copy::kForked;
  if (announced && file_.base() != nullptr) {
    constexpr long kFixedNoReplace = 0x100000;
    long got = KernelCall(SYS_mmap, PointerArgument(file_.base()), static_cast<long>(file_.file_bytes()), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | kFixedNoReplace, -1, 0);
    if (!IsError(got) && got != PointerArgument(file_.base())) KernelCall(SYS_munmap, got, static_cast<long>(file_.file_bytes()));
  }
  if (phase() == kOpen) {
    has_parent_ = true;
    memcpy(parent_session_, session_id_, sizeof(parent_session_));
  }
  sender_.AbandonAfterFork(announced);
  if (announced) {
    file_.fd().Close();
    socket_.fd().Close();
  }
  socket_.fd().Forget();
  file_ = RingFile();
  writers_ = nullptr;  // the old ones stay: a thread of the child may still remember one of them
  early_dropped_ = early_first_ticks_ = 0;
  opener_tid_ = 0;
  try_wait_ns_ = next_try_ns_ = 0;
  state_.Set("idle: no record yet");
  SetPhase(kIdle);
}

void Session::CountDropped() {
  const uint64_t now = clock_.Read();
  if (Usable()) return file_.CountWithoutRing(1, now, now);
  uint64_t none = 0;
  if (__atomic_load_n(&early_first_ticks_, __ATOMIC_RELAXED) == 0)
    __atomic_compare_exchange_n(&early_first_ticks_, &none, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  __atomic_fetch_add(&early_dropped_, 1, __ATOMIC_SEQ_CST);
  if (Usable()) CountEarlyDrops();
}

uint64_t Session::Lost() const {
  const uint64_t early = __atomic_load_n(&early_dropped_, __ATOMIC_RELAXED);
  if (!Usable()) return early;
  // Read again if a ring was recycled meanwhile: its losses would count twice or not at all. Bounded: a caller never hangs.
  uint64_t lost = 0;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const uint64_t recycles = sender_.recycles();
    lost = early + __atomic_load_n(&file_.header()->no_ring_lost, __ATOMIC_RELAXED) + sender_.past_lost();
    for (uint32_t ring = 0; ring < file_.rings_used(); ++ring) {
      lost += __atomic_load_n(&file_.descriptor(ring)->lost_records, __ATOMIC_SEQ_CST);
    }
    if (recycles % 2 == 0 && recycles == sender_.recycles()) break;
  }
  return lost;
}

bool Session::Flush(int timeout_ms) {
  if (!Usable()) return false;
  uint64_t heads[STEPSCOPE_RING_SLOTS];
  uint32_t generations[STEPSCOPE_RING_SLOTS];
  const uint32_t count = file_.rings_used();
  for (uint32_t ring = 0; ring < count; ++ring) {
    generations[ring] = __atomic_load_n(&file_.descriptor(ring)->generation, __ATOMIC_ACQUIRE);
    heads[ring] = __atomic_load_n(&file_.descriptor(ring)->head, __ATOMIC_ACQUIRE);
  }
  sender_.RequestPush();
  const uint64_t deadline_ns = ClockNs(CLOCK_MONOTONIC) + (timeout_ms > 0 ? static_cast<uint64_t>(timeout_ms) * kMs : 0);
  for (uint32_t ring = 0; ring < count;) {
    const stepscope_ring_descriptor* d = file_.descriptor(ring);
    if (__atomic_load_n(&d->generation, __ATOMIC_ACQUIRE) != generations[ring] ||
        __atomic_load_n(&d->tail, __ATOMIC_ACQUIRE) >= heads[ring]) {
      ++ring;
      continue;
    }
    if (ClockNs(CLOCK_MONOTONIC) >= deadline_ns) return false;
    timespec pause{0, 1000000};
    KernelCall(SYS_nanosleep, PointerArgument(&pause));
  }
  return true;
}

}  // namespace stepscope::agent
