// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/peer_process.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "base/status.h"

namespace stepscope {
namespace {

constexpr int kSoPeerPidFd = 77;  // Linux 6.5; older headers lack the name

/// Ids of a task from the host's namespace down to its innermost: the NSpid line of its status file; empty when it is gone.
std::vector<int32_t> NamespaceIds(const std::string& status_path) {
  std::ifstream file(status_path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("NSpid:")) continue;
    std::istringstream fields(line.substr(6));
    std::vector<int32_t> ids;
    for (int32_t id = 0; fields >> id;) ids.push_back(id);
    return ids;
  }
  return {};
}

std::string NamespaceLink(const std::string& process, const char* name) {
  std::error_code error;
  return std::filesystem::read_symlink(fmt::format("/proc/{}/ns/{}", process, name), error).string();
}

/// `of_peer` = it is of the peer for certain, not of who has its pid now.
unique_fd OpenPidFd(int socket, int32_t pid, bool* of_peer) {
  int fd = -1;
  socklen_t size = sizeof(fd);
  *of_peer = getsockopt(socket, SOL_SOCKET, kSoPeerPidFd, &fd, &size) == 0;
  if (*of_peer) return unique_fd(fd);
  if (errno != ENOPROTOOPT) return {};
  return unique_fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

/// True once the process is gone for good: what /proc shows under its pid may be another one.
bool Reaped(int pidfd) { return syscall(SYS_pidfd_send_signal, pidfd, 0, nullptr, 0) != 0 && errno == ESRCH; }

}  // namespace

absl::StatusOr<PeerProcess> ReadPeerProcess(int socket, int32_t inner_pid) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return ErrnoStatus(errno, "SO_PEERCRED");
  if (credentials.pid <= 0) {
    return absl::PermissionDeniedError(
        "the peer's process is not visible from the daemon's pid namespace; run the daemon in the host's");
  }
  PeerProcess peer;
  peer.key.pid = {credentials.pid};
  peer.uid = credentials.uid;
  bool of_peer = false;
  peer.pidfd = OpenPidFd(socket, credentials.pid, &of_peer);
  const std::string pid = std::to_string(credentials.pid);
  const std::vector<int32_t> ids = NamespaceIds(fmt::format("/proc/{}/status", pid));
  const auto start = ReadStartTicks(peer.key.pid);
  const bool gone = !peer.pidfd.ok() || Reaped(peer.pidfd.get()) || ids.empty() || !start.ok();
  if (!gone && of_peer && ids.back() != inner_pid) {
    return absl::PermissionDeniedError(fmt::format("hello claims pid {}, its process has {}", inner_pid, ids.back()));
  }
  if (gone || ids.back() != inner_pid) {
    peer.pidfd.reset();
    peer.own_pid_namespace = credentials.pid != inner_pid;
    return peer;
  }
  peer.key.start_ticks = *start;
  peer.own_pid_namespace = ids.size() > 1;
  const std::string time = NamespaceLink(pid, "time");
  peer.own_time_namespace = !time.empty() && time != NamespaceLink("self", "time");
  std::getline(std::ifstream(fmt::format("/proc/{}/comm", pid)), peer.comm);
  return peer;
}

unique_fd OpenSameProcess(ProcessKey key) {
  if (key.start_ticks == 0) return {};
  unique_fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, key.pid.value, 0)));
  const auto start = ReadStartTicks(key.pid);
  return start.ok() && *start == key.start_ticks ? std::move(pidfd) : unique_fd();
}

int32_t HostTids::Of(int32_t inner) {
  if (!own_namespace_) return inner;
  if (inner == inner_pid_) return process_.pid.value;
  if (const auto host = announced_->Host(process_, inner)) return *host;
  auto found = scanned_.find(inner);
  if (found == scanned_.end() && MayAsk()) {
    Scan();
    found = scanned_.find(inner);
  }
  if (found != scanned_.end()) return found->second;
  if (!MayAsk()) return -inner;
  announced_->CatchUp();
  const int32_t host = announced_->Host(process_, inner).value_or(-inner);
  if (host < 0) scanned_[inner] = host;
  return host;
}

/// A process may name any number of threads; looking for them must not take the time of others.
bool HostTids::MayAsk() {
  const int64_t now_ns = ReadClockNs(CLOCK_MONOTONIC);
  if (now_ns - asked_since_ns_ >= kNsPerSecond) {
    asked_since_ns_ = now_ns;
    asked_ = 0;
  }
  return ++asked_ <= kAsksPerSecond;
}

void HostTids::Scan() {
  const std::string tasks = fmt::format("/proc/{}/task", process_.pid.value);
  std::unordered_map<int32_t, int32_t> found;
  std::error_code error;
  for (std::filesystem::directory_iterator task(tasks, error), end; !error && task != end; task.increment(error)) {
    const std::vector<int32_t> ids = NamespaceIds(task->path() / "status");
    if (ids.size() > 1) found[ids.back()] = ids.front();
  }
  const auto start = ReadStartTicks(process_.pid);
  if (start.ok() && *start == process_.start_ticks) scanned_.merge(found);
}

}  // namespace stepscope
