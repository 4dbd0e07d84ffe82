// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/ingest.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <future>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "base/status.h"
#include "daemon/ingest/agent_socket.h"
#include "daemon/ingest/push_service.h"
#include "daemon/ingest/session.h"
#include "daemon/ingest/session_table.h"
#include "daemon/ingest/tick_reading.h"
#include "daemon/ingest/work_queue.h"

namespace stepscope {
namespace {

/// Each holds the memory of its rings. Beyond, whoever connects waits: a machine can fork faster than it can store.
constexpr size_t kMostDying = 1024;
constexpr std::chrono::seconds kIdle{10};
constexpr double kMostOffsetNs = 1e18;     // of a time namespace: decades; beyond it the hello lies
constexpr double kHelloWidthNs = 200'000;  // an agent reads its counter, then does other things, then CLOCK_MONOTONIC

int64_t NowNs() { return ReadClockNs(CLOCK_MONOTONIC); }

/// It has ended, reaped or not.
bool IsDead(const PeerProcess& process) {
  if (!process.pidfd.ok()) return true;
  pollfd p{process.pidfd.get(), POLLIN, 0};
  return poll(&p, 1, 0) == 1;
}

ClockAnchor HelloAnchor(const stepscope_hello& hello, const ClockRate& rate) {
  const auto width = static_cast<uint64_t>(kHelloWidthNs / rate.ns_per_tick);
  return {{hello.ticks}, width, {static_cast<int64_t>(hello.monotonic_ns)}};
}

std::string NewNonce() {
  std::string nonce(STEPSCOPE_NONCE_BYTES, '\0');
  while (getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
  }
  return nonce;
}

/// A hello that is not taken: what to answer and what to log.
struct Refusal {
  stepscope_hello_status status;
  std::string reason;
};

class IngestCore : public std::enable_shared_from_this<IngestCore> {
 public:
  IngestCore(Ingest::Options options, const Ingest::Parts& parts)
      : options_(std::move(options)), parts_(parts), park_(parts.store, parts.fds) {}

  absl::Status Start(ParkedSessions parked);
  void Stop();
  absl::Status Flush(RunId run, int64_t timeout_ns);
  IngestNumbers Stats() const;

 private:
  // Ingest thread.
  std::chrono::nanoseconds PollPeriod() const;
  void Loop();
  void OnEvent(int fd);
  void OnHello(HelloPeer peer);
  std::optional<Refusal> TakeHello(HelloPeer& peer);
  std::optional<Refusal> TakeAgain(const SessionPtr& session, const PeerProcess& process, const RingFile& file) const;
  absl::StatusOr<SessionPtr> NewSession(SessionBirth birth);
  SessionPtr TakeOver(SessionBirth birth);
  absl::StatusOr<RunId> RunOf(const Hello& hello, const PeerProcess& process) const;
  int64_t ClockOffset(const Hello& hello, const PeerProcess& process) const;
  void StartClock(const SessionBirth& birth, SessionIdentity& identity);
  void Answer(const SessionPtr& session, unique_fd connection);
  void Begin(const SessionPtr& session);
  void WatchDeath(const SessionPtr& session);
  void UnwatchOver();
  void Refused(uint32_t uid, const std::string& reason);
  // Worker.
  void PollAll();
  void SupersedeOthers(const SessionPtr& session);
  void Over(const SessionPtr& session);

  const Ingest::Options options_;
  const Ingest::Parts parts_;
  const std::shared_ptr<IngestStats> stats_ = std::make_shared<IngestStats>();
  const TickReading ticks_;
  SessionPark park_;
  SessionTable sessions_;
  unique_fd epoll_;
  unique_fd wake_;
  std::unique_ptr<AgentSocket> socket_;
  std::unique_ptr<PushService> push_;
  std::unique_ptr<WorkQueue> work_;
  std::thread thread_;
  std::atomic<bool> stopping_ = false;
  std::mutex asked_mu_;
  std::vector<std::function<void()>> asked_;  ///< tasks for the worker, behind everything the sockets hold now
  std::vector<SessionPtr> over_;              ///< no longer to be watched

  std::map<int, SessionPtr> deaths_;  ///< by pidfd
  struct Quiet {
    int64_t logged_ns = 0;
    uint64_t unlogged = 0;
  };
  std::map<uint32_t, Quiet> refusals_;
  uint64_t last_clock_ = 0;
  int64_t anchored_ns_ = 0;  ///< [worker]
};

absl::Status IngestCore::Start(ParkedSessions parked) {
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_.ok() || !wake_.ok()) return ErrnoStatus(errno, "epoll_create1/eventfd");
  const int kept_listener = parked.listener.get();
  AgentSocket::Limits limits;
  limits.hello_timeout_ns = options_.hello_timeout_ns;
  auto socket = AgentSocket::Listen(options_.socket_path, limits,
                                    {[this](HelloPeer peer) { OnHello(std::move(peer)); },
                                     [this](uint32_t uid, const std::string& reason) { Refused(uid, reason); }},
                                    std::move(parked.listener));
  if (!socket.ok()) return socket.status();
  socket_ = *std::move(socket);
  const bool is_kept = socket_->listener() == kept_listener;
  if (is_kept || park_.KeepListener(socket_->listener())) socket_->LeavePath();
  work_ = std::make_unique<WorkQueue>("ingest_work");
  auto push = PushService::Start({[this](const std::string& nonce) { return sessions_.ByNonce(nonce); },
                                  [this](std::function<void()> task) { work_->Post(std::move(task)); }});
  if (!push.ok()) return push.status();
  push_ = *std::move(push);
  socket_->Watch(epoll_.get());
  std::vector<SessionPtr> taken;
  for (SessionBirth& birth : parked.sessions) {
    if (const SessionPtr session = TakeOver(std::move(birth))) taken.push_back(session);
  }
  // Their hellos that waited for this daemon come first: after its end a session would be a new one.
  socket_->ServeAll(NowNs());
  for (const SessionPtr& session : taken) Begin(session);
  work_->Repeat([this] { return PollPeriod(); }, [this] { PollAll(); });
  epoll_event event{EPOLLIN, {.fd = wake_.get()}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event);
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "ingest");
    Loop();
  });
  return absl::OkStatus();
}

void IngestCore::Stop() {
  if (stopping_.exchange(true)) return;
  eventfd_write(wake_.get(), 1);
  if (thread_.joinable()) thread_.join();
  for (const SessionPtr& session : sessions_.All()) {
    session->Disconnect(absl::UnavailableError("the daemon is stopping; what it does not have stays in the rings"));
  }
  if (push_ != nullptr) push_->Stop();
  if (work_ != nullptr) work_->Close();
  socket_.reset();
}

/// Nobody to look after: the thread sleeps until somebody comes.
std::chrono::nanoseconds IngestCore::PollPeriod() const {
  if (sessions_.size() == 0) return kIdle;
  return std::chrono::nanoseconds(parts_.watched() ? options_.poll_ns : std::max(options_.poll_ns, options_.quiet_poll_ns));
}

void IngestCore::Loop() {
  while (!stopping_) {
    std::array<epoll_event, 64> events;
    const auto pause = socket_->HasWaiting() ? std::chrono::nanoseconds(options_.poll_ns) : kIdle;
    const int pause_ms = static_cast<int>(pause / std::chrono::milliseconds(1));
    const int count = epoll_wait(epoll_.get(), events.data(), events.size(), pause_ms);
    for (int i = 0; i < count; ++i) OnEvent(events[static_cast<size_t>(i)].data.fd);
    socket_->Expire(NowNs());
    socket_->Pause(sessions_.dying() >= kMostDying);
  }
}

void IngestCore::OnEvent(int fd) {
  if (fd == wake_.get()) {
    eventfd_t ignored;
    eventfd_read(wake_.get(), &ignored);
    UnwatchOver();
    std::vector<std::function<void()>> asked;
    {
      const std::lock_guard lock(asked_mu_);
      asked.swap(asked_);
    }
    if (!asked.empty()) socket_->ServeAll(NowNs());
    for (auto& task : asked) work_->Post(std::move(task));
    return;
  }
  if (socket_->OnReadable(fd, NowNs())) return;
  const auto died = deaths_.extract(fd);
  if (died.empty()) return;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  sessions_.MarkDying(died.mapped());
  work_->Post([session = died.mapped()] { session->Finish(); });
}

void IngestCore::OnHello(HelloPeer peer) {
  const uint32_t uid = peer.hello.message.uid;
  const int connection = peer.connection.get();
  if (const auto refusal = TakeHello(peer)) {
    Refused(uid, refusal->reason);
    AgentSocket::Refuse(connection, refusal->status);
  }
}

std::optional<Refusal> IngestCore::TakeHello(HelloPeer& peer) {
  const stepscope_hello& message = peer.hello.message;
  auto process = ReadPeerProcess(peer.connection.get(), message.pid);
  if (!process.ok()) return Refusal{STEPSCOPE_HELLO_DENIED, std::string(process.status().message())};
  auto file = RingFile::Open(std::move(peer.ring_file), peer.hello.session(), message.file_bytes);
  if (!file.ok()) return Refusal{STEPSCOPE_HELLO_BAD_FILE, std::string(file.status().message())};
  if (const SessionPtr known = sessions_.ById(peer.hello.session())) {
    if (auto refusal = TakeAgain(known, *process, *file)) return refusal;
    Answer(known, std::move(peer.connection));
    return std::nullopt;
  }
  if (sessions_.living() >= options_.max_sessions) return Refusal{STEPSCOPE_HELLO_BUSY, "too many sessions"};
  if (sessions_.LivingOf(process->uid) >= options_.max_sessions_per_user)
    return Refusal{STEPSCOPE_HELLO_BUSY, "too many sessions of one user"};
  SessionBirth birth{std::move(peer.hello), *std::move(process), *std::move(file), {}, 0};
  ProcessKey& key = birth.process.key;
  if (key.start_ticks == 0) key = parts_.jobs->SeenProcess(key, birth.process.uid);
  auto run = RunOf(birth.hello, birth.process);
  birth.run = run.value_or(RunId{});
  birth.clock_offset_ns = ClockOffset(birth.hello, birth.process);
  if (run.ok()) park_.Keep(birth);
  auto session = run.ok() ? NewSession(std::move(birth)) : run.status();
  if (!session.ok()) {
    const bool denied = absl::IsPermissionDenied(session.status());
    return Refusal{denied ? STEPSCOPE_HELLO_DENIED : STEPSCOPE_HELLO_STOP, std::string(session.status().message())};
  }
  Answer(*session, std::move(peer.connection));
  Begin(*session);
  return std::nullopt;
}

/// A session of the daemon before; null when that is not possible. Its agent says hello again if it lives.
SessionPtr IngestCore::TakeOver(SessionBirth birth) {
  if (birth.process.pidfd.ok()) {  // the job table began anew: it hears of the process as at its hello
    birth.run = RunOf(birth.hello, birth.process).value_or(birth.run);
  }
  const stepscope_hello& message = birth.hello.message;
  const ClockAnchor first = HelloAnchor(message, ticks_.Rate(message.clock_kind));
  const int32_t pid = birth.process.key.pid.value;
  const auto session = NewSession(std::move(birth));
  if (!session.ok()) {
    spdlog::warn("session of process {} is not taken over: {}", pid, std::string(session.status().message()));
    return nullptr;
  }
  parts_.clocks->AddAnchor((*session)->identity().clock, first);
  sessions_.Put(*session, NewNonce());
  return *session;
}

void IngestCore::Begin(const SessionPtr& session) {
  work_->Post([this, session] {
    session->Begin();
    SupersedeOthers(session);
  });
  WatchDeath(session);
}

/// The same session says hello again: only the process that opened it, with the file it opened.
std::optional<Refusal> IngestCore::TakeAgain(const SessionPtr& session, const PeerProcess& process, const RingFile& file) const {
  const PeerProcess& owner = session->peer();
  if (owner.key.pid != process.key.pid || owner.uid != process.uid)
    return Refusal{STEPSCOPE_HELLO_DENIED, "session of another process"};
  if (!session->SameFile(file)) return Refusal{STEPSCOPE_HELLO_BAD_FILE, "session came back with another ring file"};
  return std::nullopt;
}

absl::StatusOr<SessionPtr> IngestCore::NewSession(SessionBirth birth) {
  SessionIdentity identity;
  identity.session = birth.hello.session();
  identity.run = birth.run;
  identity.process = birth.process.key;
  StartClock(birth, identity);
  const auto over = [weak = weak_from_this()](const SessionPtr& session) {
    if (const auto core = weak.lock()) core->work_->Post([core, session] { core->Over(session); });
  };
  const ClockId clock = identity.clock;
  auto session =
      std::make_shared<Session>(Session::Parts{parts_.store, parts_.sink, parts_.clocks, parts_.jobs, parts_.tids, stats_, over},
                                std::move(identity), std::move(birth.process), birth.hello.message.pid, std::move(birth.file));
  if (absl::Status loaded = session->Load(); !loaded.ok()) {
    parts_.clocks->Forget(clock);
    return loaded;
  }
  stats_->Update([](IngestNumbers& n) { ++n.sessions_total; });
  return session;
}

/// The run the process belongs to. A forked child that ended before its hello was read has no ancestry left to look at: it
/// belongs to the run of the process it was forked from, even if that one was killed with it.
absl::StatusOr<RunId> IngestCore::RunOf(const Hello& hello, const PeerProcess& process) const {
  std::optional<SessionTable::Origin> parent;
  if (hello.message.parent_session_known != 0) parent = sessions_.OriginOf(hello.parent());
  if (parent && parent->uid != process.uid) parent.reset();
  if (parent && IsDead(process)) return parent->run;
  auto run = parts_.jobs->RunForSession(process.key, process.uid, hello.facts);
  return !run.ok() && parent ? parent->run : run;
}

int64_t IngestCore::ClockOffset(const Hello& hello, const PeerProcess& process) const {
  if (!process.own_time_namespace) return 0;
  const stepscope_hello& message = hello.message;
  const std::optional<ClockAnchor> own = TickReading::Read(message.clock_kind);
  const double ns_per_tick = ticks_.Rate(message.clock_kind).ns_per_tick;
  const double since = own ? static_cast<double>(static_cast<int64_t>(own->ticks.ticks - message.ticks)) * ns_per_tick : 0;
  const double node_ns = own ? static_cast<double>(own->node.ns) - since : static_cast<double>(NowNs());
  const double offset_ns = node_ns - static_cast<double>(static_cast<int64_t>(message.monotonic_ns));
  const bool counts = std::abs(offset_ns) >= static_cast<double>(kNsPerSecond) && std::abs(offset_ns) < kMostOffsetNs;
  return counts ? std::llround(offset_ns) : 0;
}

void IngestCore::StartClock(const SessionBirth& birth, SessionIdentity& identity) {
  const stepscope_hello& message = birth.hello.message;
  const ClockRate rate = ticks_.Rate(message.clock_kind);
  const std::optional<ClockAnchor> own = TickReading::Read(message.clock_kind);
  identity.clock = {++last_clock_};
  identity.clock_kind = message.clock_kind;
  identity.clock_offset_ns = birth.clock_offset_ns;
  identity.ns_per_tick = rate.ns_per_tick;
  parts_.clocks->Register(identity.clock, birth.clock_offset_ns, rate);
  const ClockAnchor hello = HelloAnchor(message, rate);
  parts_.clocks->AddAnchor(identity.clock,
                           own ? ClockAnchor{own->ticks, own->width_ticks, own->node + -birth.clock_offset_ns} : hello);
}

/// Says yes and hands the socket to gRPC. A peer that is gone by now is no error: its death is watched.
void IngestCore::Answer(const SessionPtr& session, unique_fd connection) {
  const std::string nonce = NewNonce();
  sessions_.Put(session, nonce);
  const std::string reply = EncodeHelloReply(STEPSCOPE_HELLO_OK, nonce, session->StoredPositions());
  const ssize_t sent = send(connection.get(), reply.data(), reply.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent != static_cast<ssize_t>(reply.size())) return;
  session->Connect(unique_fd(fcntl(connection.get(), F_DUPFD_CLOEXEC, 0)));
  push_->Serve(std::move(connection));
}

void IngestCore::WatchDeath(const SessionPtr& session) {
  const int pidfd = session->peer().pidfd.get();
  if (pidfd < 0) {
    sessions_.MarkDying(session);
    work_->Post([session] { session->Finish(); });
    return;
  }
  deaths_[pidfd] = session;
  epoll_event event{EPOLLIN, {.fd = pidfd}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, pidfd, &event);
}

/// A process may open any number of sessions in its life: one that is over lets go of its files before the process dies.
void IngestCore::UnwatchOver() {
  std::vector<SessionPtr> over;
  {
    const std::lock_guard lock(asked_mu_);
    over.swap(over_);
  }
  for (const SessionPtr& session : over) {
    const int pidfd = session->peer().pidfd.get();
    if (deaths_.erase(pidfd) > 0) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, pidfd, nullptr);
  }
}

/// One line a second for each user, whatever it sends.
void IngestCore::Refused(uint32_t uid, const std::string& reason) {
  stats_->Reject(reason);
  Quiet& quiet = refusals_[uid];
  const int64_t now_ns = NowNs();
  if (now_ns - quiet.logged_ns < kNsPerSecond) {
    ++quiet.unlogged;
    return;
  }
  spdlog::warn("agent of user {} refused: {} ({} more like it not logged)", uid, reason, quiet.unlogged);
  quiet = {now_ns, 0};
  std::erase_if(refusals_, [&](const auto& entry) { return now_ns - entry.second.logged_ns > 60 * kNsPerSecond; });
}

void IngestCore::PollAll() {
  const int64_t now_ns = NowNs();
  const bool anchor = now_ns - anchored_ns_ >= kNsPerSecond;
  if (anchor) anchored_ns_ = now_ns;
  for (const SessionPtr& session : sessions_.All()) {
    if (session->finished()) continue;
    const SessionIdentity& identity = session->identity();
    const auto own = anchor ? TickReading::Read(identity.clock_kind) : std::nullopt;
    if (own) parts_.clocks->AddAnchor(identity.clock, {own->ticks, own->width_ticks, own->node + -identity.clock_offset_ns});
    session->Poll(now_ns);
  }
}

/// exec() replaces the image under a session: its file and socket are gone with the old image, its pid lives on. Newer sessions
/// may be in the table already; clocks are numbered as sessions come.
void IngestCore::SupersedeOthers(const SessionPtr& session) {
  for (const SessionPtr& other : sessions_.Siblings(session)) {
    if (other->identity().clock < session->identity().clock) other->Supersede();
  }
}

void IngestCore::Over(const SessionPtr& session) {
  park_.Forget(session->identity().session);
  sessions_.Remove(session);
  if (sessions_.dying() + 1 == kMostDying) eventfd_write(wake_.get(), 1);  // there is room again
  parts_.clocks->Forget(session->identity().clock);
  session->Disconnect(absl::OkStatus());
  {
    const std::lock_guard lock(asked_mu_);
    over_.push_back(session);
  }
  eventfd_write(wake_.get(), 1);
}

absl::Status IngestCore::Flush(RunId run, int64_t timeout_ns) {
  using Tickets = std::vector<std::pair<SessionPtr, uint64_t>>;
  const auto drained = std::make_shared<std::promise<Tickets>>();
  auto tickets = drained->get_future();
  const int64_t until_ns = NowNs() + timeout_ns;
  {
    const std::lock_guard lock(asked_mu_);
    asked_.push_back([this, run, drained] {
      Tickets result;
      for (const SessionPtr& session : sessions_.All()) {
        if (session->identity().run != run) continue;
        IsDead(session->peer()) ? session->Finish() : session->Drain();
        result.emplace_back(session, session->delivered_count());
      }
      drained->set_value(std::move(result));
    });
  }
  eventfd_write(wake_.get(), 1);
  auto late = absl::DeadlineExceededError(
      fmt::format("run {}: the last records of its processes are not stored yet; try again", run.value));
  if (tickets.wait_for(std::chrono::nanoseconds(timeout_ns)) != std::future_status::ready) return late;
  for (const auto& [session, count] : tickets.get()) {
    if (!session->WaitStored(count, std::max<int64_t>(until_ns - NowNs(), 0))) return late;
  }
  return absl::OkStatus();
}

IngestNumbers IngestCore::Stats() const {
  IngestNumbers numbers = stats_->Get();
  numbers.sessions = sessions_.size();
  return numbers;
}

class IngestHandle final : public Ingest {
 public:
  explicit IngestHandle(std::shared_ptr<IngestCore> core) : core_(std::move(core)) {}
  ~IngestHandle() override { core_->Stop(); }
  void Stop() override { core_->Stop(); }
  absl::Status FlushSessions(RunId run, int64_t timeout_ns) override { return core_->Flush(run, timeout_ns); }
  IngestNumbers Stats() const override { return core_->Stats(); }

 private:
  std::shared_ptr<IngestCore> core_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Ingest>> Ingest::Start(const Options& options, const Parts& parts, ParkedSessions parked) {
  auto core = std::make_shared<IngestCore>(options, parts);
  STEPSCOPE_RETURN_IF_ERROR(core->Start(std::move(parked)));
  return std::make_unique<IngestHandle>(std::move(core));
}

}  // namespace stepscope
