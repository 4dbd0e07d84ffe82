// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/session_park.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cstring>
#include <optional>

#include "absl/strings/escaping.h"
#include "base/status.h"
#include "stepscope/store/v1/store.pb.h"
#include "storage/keys.h"

namespace stepscope {
namespace {

namespace pb = store::v1;

constexpr char kKind[] = "session";
constexpr char kListener[] = "agent-socket";

/// Short: systemd hands all names over in one variable, and Linux allows 128 KiB for one. 22 characters × 4,096 sessions fit.
std::string FdName(const std::string& session) { return absl::WebSafeBase64Escape(session); }

pb::SessionRecord RecordOf(const SessionBirth& session) {
  const auto& message = session.hello.message;
  pb::SessionRecord record;
  record.set_hello(reinterpret_cast<const char*>(&message), sizeof(message));
  record.mutable_facts()->insert(session.hello.facts.begin(), session.hello.facts.end());
  record.set_run(session.run.value);
  record.set_pid(session.process.key.pid.value);
  record.set_start_ticks(session.process.key.start_ticks);
  record.set_uid(session.process.uid);
  record.set_comm(session.process.comm);
  record.set_own_pid_namespace(session.process.own_pid_namespace);
  record.set_clock_offset_ns(session.clock_offset_ns);
  return record;
}

absl::StatusOr<Hello> HelloOf(const pb::SessionRecord& record) {
  stepscope_hello message{};
  if (record.hello().size() != sizeof(message)) return absl::DataLossError("its hello has another size");
  std::memcpy(&message, record.hello().data(), sizeof(message));
  message.facts_bytes = 0;
  message.size = sizeof(message);
  STEPSCOPE_ASSIGN_OR_RETURN(Hello hello, ParseHello(std::as_bytes(std::span(&message, 1))));
  hello.facts.insert(record.facts().begin(), record.facts().end());
  return hello;
}

}  // namespace

std::vector<std::pair<RunId, ProcessKey>> ParkedSessions::Processes() const {
  std::vector<std::pair<RunId, ProcessKey>> processes;
  processes.reserve(sessions.size());
  for (const SessionBirth& session : sessions) processes.emplace_back(session.run, session.process.key);
  return processes;
}

absl::StatusOr<SessionBirth> SessionPark::Restore(const pb::SessionRecord& record, unique_fd file) const {
  STEPSCOPE_ASSIGN_OR_RETURN(Hello hello, HelloOf(record));
  STEPSCOPE_ASSIGN_OR_RETURN(RingFile ring_file, RingFile::Open(std::move(file), hello.session(), hello.message.file_bytes));
  STEPSCOPE_ASSIGN_OR_RETURN(const auto run, store_->GetMeta("run", RunMetaId(RunId{record.run()})));
  if (!run) return absl::NotFoundError("its run was deleted");
  PeerProcess process;
  process.key = {Pid{record.pid()}, record.start_ticks()};
  process.uid = record.uid();
  process.comm = record.comm();
  process.own_pid_namespace = record.own_pid_namespace();
  process.pidfd = OpenSameProcess(process.key);
  return SessionBirth{std::move(hello), std::move(process), std::move(ring_file), RunId{record.run()}, record.clock_offset_ns()};
}

absl::StatusOr<ParkedSessions> SessionPark::Take() {
  Files files;
  if (fds_ != nullptr) {
    for (KeptFd& kept : fds_->Take()) files.insert_or_assign(kept.name, std::move(kept.fd));
  }
  ParkedSessions taken;
  if (auto listener = files.extract(kListener)) taken.listener = std::move(listener.mapped());
  std::vector<std::string> over;
  STEPSCOPE_RETURN_IF_ERROR(store_->ForEachMeta(kKind, [&](std::string_view id, std::string_view value) {
    pb::SessionRecord record;
    const bool readable = record.ParseFromArray(value.data(), static_cast<int>(value.size()));
    auto file = files.extract(FdName(std::string(id)));
    if (!file) {  // a process that lives will say hello again
      if (!OpenSameProcess({Pid{record.pid()}, record.start_ticks()}).ok()) over.emplace_back(id);
      return true;
    }
    auto session = readable ? Restore(record, std::move(file.mapped())) : absl::DataLossError("its record is damaged");
    if (session.ok() && session->hello.session() == id) {
      taken.sessions.push_back(*std::move(session));
    } else {
      spdlog::warn("ring file of process {} is not taken over: {}", record.pid(), std::string(session.status().message()));
      over.emplace_back(id);
    }
    return true;
  }));
  for (const std::string& session : over) Forget(session);
  CloseUnknown(files);
  if (!taken.sessions.empty()) spdlog::info("{} sessions taken over from the daemon before", taken.sessions.size());
  return taken;
}

void SessionPark::CloseUnknown(const Files& files) {
  for (const auto& [name, fd] : files) {
    spdlog::info("the service manager kept a descriptor \"{}\" that no session needs; it is closed", name);
    fds_->Remove(name);
  }
}

void SessionPark::Keep(const SessionBirth& session) {
  const std::string id = session.hello.session();
  Seal seal;
  seal.meta.push_back({kKind, id, RecordOf(session).SerializeAsString()});
  absl::Status kept = store_->Commit(seal);
  if (kept.ok() && fds_ != nullptr && !fds_->Keep(FdName(id), session.file.fd())) {
    kept = absl::UnavailableError("the service manager did not take its ring file within a second");
  }
  if (kept.ok()) return;
  spdlog::warn("process {} is recorded, but what it records while no daemon runs is lost if it ends then: {}",
               session.process.key.pid.value, std::string(kept.message()));
}

void SessionPark::Forget(const std::string& session) {
  if (absl::Status status = store_->ForgetSession(session); !status.ok()) {
    spdlog::warn("positions of an ended session stay in the store: {}", std::string(status.message()));
  }
  if (fds_ != nullptr) fds_->Remove(FdName(session));
}

bool SessionPark::KeepListener(int fd) {
  if (fds_ == nullptr) return false;
  fds_->Remove(kListener);
  return fds_->Keep(kListener, fd);
}

}  // namespace stepscope
