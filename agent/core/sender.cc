// SPDX-License-Identifier: Apache-2.0
#include "agent/core/sender.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <initializer_list>

#include "agent/core/kernel_call.h"

namespace stepscope::agent {
namespace {

constexpr uint64_t kMs = 1000000;
constexpr uint64_t kSecond = 1000 * kMs;
constexpr uint64_t kFirstConnectWait = 100 * kMs;
constexpr uint64_t kLongestConnectWait = 10 * kSecond;
constexpr uint64_t kIdlePoll = 250 * kMs;  // longest time between two looks at the rings
constexpr uint64_t kBusyPoll = 50 * kMs;   // until kBusyTime after more than kBusyBytes came between two looks
constexpr uint64_t kBusyBytes = 16 << 10;
constexpr uint64_t kBusyTime = 1 * kSecond;
constexpr uint64_t kLongestBulkWait = 100 * kMs;
constexpr uint64_t kShortestPushWait = 1 * kMs;
constexpr size_t kStackBytes = 1u << 20;
constexpr char kDaemonAway[] = "recording, daemon away: records wait in the ring; socket ";

// Everything blocked but what a crash in this very thread raises: blocked, those would kill without the host's handler.
sigset_t SignalsBlockedInSender() {
  sigset_t set;
  sigfillset(&set);
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigdelset(&set, signal);
  return set;
}

// The kernel forgets a thread's list of robust locks when it ends, and libc gives one to each. Needs no descriptor.
bool MainThreadHasEnded() {
  const void* locks = nullptr;
  size_t size = 0;
  return !IsError(KernelCall(SYS_get_robust_list, ProcessId(), PointerArgument(static_cast<const void*>(&locks)),
                             PointerArgument(&size))) &&
         locks == nullptr;
}

// By "PID (name) STATE …", the state being the main thread's and the 18th word from there the number of threads, an ended main
// thread and this one included. Without /proc (a chroot) nobody counts: yes, since a process that never ends is worse than one
// without a sender.
bool OnlyThisThreadIsLeft() {
  char text[1024];
  const long fd = KernelCall(SYS_openat, AT_FDCWD, PointerArgument("/proc/self/stat"), O_RDONLY | O_CLOEXEC);
  if (IsError(fd)) return true;
  const long bytes = KernelCall(SYS_read, fd, PointerArgument(text), sizeof(text) - 1);
  KernelCall(SYS_close, fd);
  if (bytes <= 0) return true;
  text[bytes] = ' ';
  const char* const end = text + bytes;
  const char* at = end;
  while (at > text && *at != ')') --at;
  if (end - at < 4 || (at[2] != 'Z' && at[2] != 'X')) return false;
  for (int words = 0; words < 18 && at < end; ++at) words += *at == ' ' ? 1 : 0;
  return at[0] == '2' && at[1] == ' ';
}

// Senders of a node wake together: the daemon takes what all of them bring at once, and ranks that wait for each other are
// disturbed at the same time.
uint64_t NextMultiple(uint64_t now_ns, uint64_t period_ns) { return (now_ns / period_ns + 1) * period_ns; }

const char* RefusalText(uint32_t status) {
  switch (status) {
    case STEPSCOPE_HELLO_BAD_MESSAGE:
      return "refused: the daemon does not understand this agent, versions differ; socket ";
    case STEPSCOPE_HELLO_BAD_FILE:
      return "refused: the daemon does not accept the ring file; socket ";
    case STEPSCOPE_HELLO_DENIED:
      return "refused: the daemon denies this user; socket ";
    case STEPSCOPE_HELLO_BUSY:
      return "waiting: the daemon has too many sessions; socket ";
    case STEPSCOPE_HELLO_STOP:
      return "waiting: the daemon takes no records now (disk full?); socket ";
    default:
      return "refused: unknown answer of the daemon; socket ";
  }
}

}  // namespace

bool Sender::StartThread() {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  const sigset_t blocked = SignalsBlockedInSender();
  pthread_sigmask(SIG_SETMASK, &blocked, &host_mask_);
  pthread_t thread;
  const int result = pthread_create(&thread, &attributes, ThreadMain, this);
  pthread_sigmask(SIG_SETMASK, &host_mask_, nullptr);
  pthread_attr_destroy(&attributes);
  return result == 0;
}

bool Sender::Start(const SenderParts& parts, DaemonSocket* socket) {
  parts_ = parts;
  socket_ = *socket;
  link_ = Link::kAwaitingReply;
  connect_wait_ns_ = kFirstConnectWait;
  next_connect_ns_ = next_push_ns_ = next_second_ns_ = 0;
  unsent_bytes_ = 0;
  busy_until_ns_ = waiting_before_ = 0;
  drain_.Open(parts.file);
  if (arena_memory_ == nullptr) arena_memory_ = MapPrivate(PushStream::kArenaBytes);
  if (arena_memory_ == nullptr) return false;
  int pair[2] = {-1, -1};
  if (!IsError(KernelCall(SYS_socketpair, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, PointerArgument(pair)))) {
    wake_receive_.Hold(pair[0]);
    wake_send_.Hold(pair[1]);
  }
  main_thread_ended_ = false;
  return StartThread();
}

void Sender::RequestPush() {
  __atomic_store_n(&push_requested_, true, __ATOMIC_RELEASE);
  HeldFd wake = wake_send_;
  int fd = wake.Use();
  if (fd >= 0) KernelCall(SYS_sendto, fd, PointerArgument("!"), 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Sender::AbandonAfterFork(bool close_descriptors) {
  for (HeldFd* fd : {&socket_.fd(), &wake_receive_, &wake_send_}) {
    if (close_descriptors) fd->Close();
    fd->Forget();
  }
  link_ = Link::kDown;
  past_lost_ = 0;
  push_requested_ = false;
}

void* Sender::ThreadMain(void* self) {
  auto* sender = static_cast<Sender*>(self);
  sender->BecomeQuietThread();
  sender->Run();
  return nullptr;
}

void Sender::BecomeQuietThread() {
  KernelCall(SYS_prctl, PR_SET_NAME, PointerArgument("stepscope"));
  sched_param no_priority{};
  KernelCall(SYS_sched_setscheduler, 0, SCHED_OTHER, PointerArgument(&no_priority));
  unsigned char all_cpus[1024];
  memset(all_cpus, 0xFF, sizeof(all_cpus));
  KernelCall(SYS_sched_setaffinity, 0, sizeof(all_cpus), PointerArgument(all_cpus));

  RingWriter::Owner owner{parts_.fork_token, ThreadId(), "stepscope"};
  __atomic_store_n(&parts_.file->header()->sender_tid, owner.tid, __ATOMIC_RELEASE);
  const uint64_t ticks = parts_.clock->Read();
  parts_.file->AcquireSenderRing(owner.tid, owner.comm, ticks);
  parts_.writers[kSenderRing].Open(parts_.file->descriptor(kSenderRing), parts_.file->data(kSenderRing), parts_.names, owner,
                                   ticks);
}

void Sender::Run() {
  for (;;) {
    const uint64_t now_ns = ClockNs(CLOCK_MONOTONIC);
    if (now_ns >= next_second_ns_) OncePerSecond(now_ns);
    if (HostHasEnded() || !AdvanceLink(now_ns)) return;
    __atomic_fetch_add(&parts_.file->header()->heartbeat, 1, __ATOMIC_RELEASE);
    if (link_ == Link::kStreaming) Exchange(now_ns);
    RecycleDrainedRings();
    Wait();
  }
}

void Sender::OncePerSecond(uint64_t now_ns) {
  next_second_ns_ = NextMultiple(now_ns, kSecond);
  parts_.writers[kSenderRing].Anchor(parts_.clock->Anchor());
  __atomic_store_n(&parts_.file->header()->sender_cpu_ns, ClockNs(CLOCK_THREAD_CPUTIME_ID), __ATOMIC_RELAXED);
  RetireGoneThreads();
  main_thread_ended_ = MainThreadHasEnded();
}

// The host's last thread has ended by pthread_exit while this one ran. Returning makes libc end the process as it would have
// without us: exit handlers, status 0.
bool Sender::HostHasEnded() {
  if (!main_thread_ended_ || !OnlyThisThreadIsLeft()) return false;
  parts_.state->Set("recording without a sender: the main thread has ended; the daemon reads what is in the ring");
  pthread_sigmask(SIG_SETMASK, &host_mask_, nullptr);
  return true;
}

void Sender::RetireGoneThreads() {
  const int32_t pid = ProcessId();
  for (uint32_t ring = 1; ring < parts_.file->rings_used(); ++ring) {
    if (parts_.file->state(ring) != STEPSCOPE_RING_ACTIVE) continue;
    int32_t tid = __atomic_load_n(&parts_.file->descriptor(ring)->tid, __ATOMIC_ACQUIRE);
    constexpr long kProbe = 0;
    if (tid != 0 && KernelCall(SYS_tgkill, pid, tid, kProbe) == -ESRCH) parts_.file->Retire(ring);
  }
}

void Sender::RecycleDrainedRings() {
  for (uint32_t ring = 1; ring < parts_.file->rings_used(); ++ring) {
    if (parts_.file->state(ring) != STEPSCOPE_RING_RETIRED) continue;
    if (!parts_.writers[ring].TellLoss() || !drain_.Drained(ring)) continue;
    __atomic_fetch_add(&recycles_, 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&past_lost_, parts_.file->descriptor(ring)->lost_records, __ATOMIC_SEQ_CST);
    parts_.file->Recycle(ring);
    __atomic_fetch_add(&recycles_, 1, __ATOMIC_SEQ_CST);
    drain_.Forget(ring);
  }
}

// False when this sender has nothing left to do: the ring file's descriptor is gone and with it any new connection.
bool Sender::AdvanceLink(uint64_t now_ns) {
  if (link_ == Link::kDown && now_ns >= next_connect_ns_ && !Reconnect(now_ns)) return false;
  if (link_ == Link::kAwaitingReply) TakeReply(now_ns);
  return true;
}

bool Sender::Reconnect(uint64_t now_ns) {
  const int file_fd = parts_.file->fd().Use();
  if (file_fd < 0) {
    parts_.state->Set(
        "recording without a sender: the host closed the agent's descriptors; the daemon reads what is in the ring");
    return false;
  }
  long result = socket_.Connect(parts_.socket_path);
  if (!IsError(result)) result = socket_.SendHello(parts_.hello, file_fd);
  if (IsError(result)) {
    LoseLink(now_ns, kDaemonAway, 0);
    return true;
  }
  link_ = Link::kAwaitingReply;
  return true;
}

void Sender::TakeReply(uint64_t now_ns) {
  switch (socket_.ReceiveReply()) {
    case DaemonSocket::Reply::kWaiting:
      return;
    case DaemonSocket::Reply::kClosed:
      return LoseLink(now_ns, kDaemonAway, 0);
    case DaemonSocket::Reply::kMalformed:
      return LoseLink(now_ns, "refused: no stepscope daemon answers at socket ", kLongestConnectWait);
    case DaemonSocket::Reply::kComplete:
      break;
  }
  const stepscope_hello_reply& reply = socket_.reply();
  if (reply.status != STEPSCOPE_HELLO_OK) return LoseLink(now_ns, RefusalText(reply.status), kLongestConnectWait);
  drain_.Restart(socket_.positions(), socket_.position_count());
  if (!stream_.Open(arena_memory_, &drain_, reply.nonce, sizeof(reply.nonce))) {
    return LoseLink(now_ns, "waiting: the HTTP/2 session failed; socket ", kLongestConnectWait);
  }
  unsent_bytes_ = 0;
  next_push_ns_ = 0;
  link_ = Link::kStreaming;
  parts_.state->Set("recording");
}

void Sender::LoseLink(uint64_t now_ns, const char* why, uint64_t least_wait_ns) {
  if (link_ == Link::kStreaming && stream_.acknowledged()) connect_wait_ns_ = kFirstConnectWait;
  socket_.Close();
  link_ = Link::kDown;
  next_connect_ns_ = now_ns + (connect_wait_ns_ > least_wait_ns ? connect_wait_ns_ : least_wait_ns);
  connect_wait_ns_ = connect_wait_ns_ * 2 < kLongestConnectWait ? connect_wait_ns_ * 2 : kLongestConnectWait;
  parts_.state->Set(why, parts_.socket_path);
}

void Sender::Exchange(uint64_t now_ns) {
  if (ReceiveAll()) {
    if (PushDue(now_ns)) stream_.Resume();
    if (SendAll()) return;
  }
  const char* told = stream_.EndText();
  LoseLink(now_ns, told != nullptr ? told : kDaemonAway, 0);
}

// At 64 KiB or after the interval, whichever comes first, and when a ring needs its space; when much came at once, sooner the
// next time, since nothing wakes this thread.
bool Sender::PushDue(uint64_t now_ns) {
  const bool asked = __atomic_exchange_n(&push_requested_, false, __ATOMIC_ACQ_REL);
  const PushSettings& settings = stream_.settings();
  const uint64_t waiting = drain_.WaitingBytes();
  if (waiting > waiting_before_ + kBusyBytes) busy_until_ns_ = now_ns + kBusyTime;
  waiting_before_ = waiting;
  const bool is_due = asked || now_ns >= next_push_ns_ || waiting >= settings.push_bytes || drain_.NeedsSpace();
  if (!is_due) return false;
  uint64_t wait_ns = kIdlePoll;
  if (waiting != 0) {
    wait_ns = settings.interval_ms * kMs;
    if (waiting > settings.push_bytes) {
      wait_ns = (wait_ns < kLongestBulkWait ? wait_ns : kLongestBulkWait) * settings.push_bytes / waiting;
    }
    if (wait_ns < kShortestPushWait) wait_ns = kShortestPushWait;
  }
  next_push_ns_ = NextMultiple(now_ns, wait_ns);
  waiting_before_ = 0;
  return waiting != 0;
}

bool Sender::ReceiveAll() {
  uint8_t buffer[16 << 10];
  constexpr int kMostRounds = 64;
  for (int round = 0; round < kMostRounds; ++round) {
    const long got = socket_.Receive(buffer, sizeof(buffer));
    if (got == -EAGAIN || got == -EINTR) return true;
    if (got <= 0 || !stream_.Received(buffer, static_cast<size_t>(got))) return false;
  }
  return true;
}

bool Sender::SendAll() {
  for (;;) {
    if (unsent_bytes_ == 0) unsent_bytes_ = stream_.NextOutput(&unsent_);
    if (unsent_bytes_ == 0) return true;
    if (unsent_bytes_ < 0) return false;
    const long sent = socket_.Send(unsent_, static_cast<size_t>(unsent_bytes_));
    if (sent == -EAGAIN || sent == -EINTR) return true;
    if (sent < 0) return false;
    unsent_ += sent;
    unsent_bytes_ -= sent;
  }
}

uint64_t Sender::NextDeadline(uint64_t now_ns) const {
  uint64_t deadline = next_second_ns_;
  const uint64_t look = NextMultiple(now_ns, now_ns < busy_until_ns_ ? kBusyPoll : kIdlePoll);
  if (look < deadline) deadline = look;
  const uint64_t link_deadline = link_ == Link::kDown ? next_connect_ns_ : link_ == Link::kStreaming ? next_push_ns_ : deadline;
  return link_deadline < deadline ? link_deadline : deadline;
}

void Sender::Wait() {
  pollfd fds[2];
  long count = 0;
  if (int fd = wake_receive_.Use(); fd >= 0) fds[count++] = {fd, POLLIN, 0};
  if (int fd = link_ == Link::kDown ? -1 : socket_.fd().Use(); fd >= 0) {
    fds[count++] = {fd, static_cast<short>(unsent_bytes_ > 0 && link_ == Link::kStreaming ? POLLIN | POLLOUT : POLLIN), 0};
  }
  const uint64_t now_ns = ClockNs(CLOCK_MONOTONIC);
  const uint64_t deadline_ns = NextDeadline(now_ns);
  const uint64_t wait_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
  timespec timeout{0, static_cast<long>(wait_ns)};
  if (KernelCall(SYS_ppoll, PointerArgument(fds), count, PointerArgument(&timeout), 0, 8) == 0) return;
  char woken[16];
  if (int fd = wake_receive_.Use(); fd >= 0) KernelCall(SYS_recvfrom, fd, PointerArgument(woken), sizeof(woken), MSG_DONTWAIT);
}

}  // namespace stepscope::agent
