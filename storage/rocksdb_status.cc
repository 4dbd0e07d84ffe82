// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb_status.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <string>

#include "base/unique_fd.h"

namespace stepscope {
namespace {

struct Meaning {
  absl::StatusCode code;
  std::string_view next_step;
};

Meaning MeaningOf(const rocksdb::Status& status, std::string_view text) {
  const auto says = [&](std::string_view words) { return text.find(words) != std::string_view::npos; };
  if (status.IsNoSpace() || says("No space left") || says("quota exceeded")) {
    return {absl::StatusCode::kResourceExhausted, "free disk space there or give another --data-dir"};
  }
  if (says("Read-only file system") || says("Permission denied") || says("not permitted")) {
    return {absl::StatusCode::kPermissionDenied, "make the directory writable for this user or give another --data-dir"};
  }
  if (status.IsCorruption() || says("does not exist") || says("o such file")) {
    return {absl::StatusCode::kDataLoss,
            "the store is damaged: move the directory away to start a new one, keep it for recovery"};
  }
  if (status.IsNotSupported() || status.IsInvalidArgument()) {
    return {absl::StatusCode::kFailedPrecondition,
            "another release may have written this store: use that release or another --data-dir"};
  }
  if (status.IsShutdownInProgress()) return {absl::StatusCode::kAborted, "the store is closing"};
  return {absl::StatusCode::kUnavailable, "look at the disk and the kernel log"};
}

/// Pid that holds the POSIX lock on PATH/LOCK; 0 when it is not visible. Never call it in the process that holds the lock:
/// closing any descriptor of the file would release it.
pid_t LockHolder(std::string_view path) {
  const unique_fd lock(open(fmt::format("{}/LOCK", path).c_str(), O_RDONLY | O_CLOEXEC));
  if (!lock.ok()) return 0;
  struct flock query{};
  query.l_type = F_WRLCK;
  query.l_whence = SEEK_SET;
  if (fcntl(lock.get(), F_GETLK, &query) != 0 || query.l_type == F_UNLCK) return 0;
  return query.l_pid > 0 ? query.l_pid : 0;
}

}  // namespace

absl::Status RocksDbStatus(const rocksdb::Status& status, std::string_view path, std::string_view what) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = status.ToString();
  const Meaning meaning = MeaningOf(status, text);
  return absl::Status(meaning.code, fmt::format("store {}: {}: {}; {}", path, what, text, meaning.next_step));
}

bool IsLockConflict(const rocksdb::Status& status) {
  if (!status.IsIOError()) return false;
  const std::string text = status.ToString();
  return text.find("lock file") != std::string::npos || text.find("lock hold by current process") != std::string::npos;
}

absl::Status LockConflict(const rocksdb::Status& status, std::string_view path) {
  if (status.ToString().find("current process") != std::string::npos) {
    return absl::FailedPreconditionError(fmt::format("store {} is already open in this process; use the open one", path));
  }
  const pid_t pid = LockHolder(path);
  const std::string holder = pid > 0 ? fmt::format("another stepscoped (pid {})", pid) : "another stepscoped";
  return absl::FailedPreconditionError(fmt::format("store {} is in use by {}; stop it or give another --data-dir", path, holder));
}

}  // namespace stepscope
