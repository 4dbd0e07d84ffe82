// SPDX-License-Identifier: Apache-2.0
#include "cli/private_daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/proc_stat.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "cli/bundle.h"

extern char** environ;

namespace stepscope::cli {
namespace {

constexpr auto kStartTimeout = std::chrono::seconds(20);

std::string ReadAll(int fd) {
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    text.append(buffer, static_cast<size_t>(n));
  }
}

}  // namespace

std::string DefaultDataDir() {
  if (const char* xdg = getenv("XDG_DATA_HOME"); xdg != nullptr && *xdg != '\0') return std::string(xdg) + "/stepscope";
  const char* home = getenv("HOME");
  return std::string(home != nullptr ? home : "/tmp") + "/.local/share/stepscope";
}

absl::StatusOr<DaemonAddress> FindPrivateDaemon(const std::string& data_dir) {
  const std::string path = data_dir + "/daemon.json";
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(path + " is not there");
  const auto facts = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!facts.is_object()) return absl::NotFoundError(fmt::format("{} is not JSON; remove it", path));
  const auto number = [&](const char* key) {
    const auto found = facts.find(key);
    return found != facts.end() && found->is_number() ? found->get<int64_t>() : 0;
  };
  const auto text = [&](const char* key) {
    const auto found = facts.find(key);
    return found != facts.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const Pid pid{static_cast<int32_t>(number("pid"))};
  const auto stat = ReadProcStat(pid);
  if (pid.value <= 0 || !stat || stat->start_ticks != number("start_ticks")) {
    return absl::NotFoundError(fmt::format("{} is of a daemon that is gone", path));
  }
  return DaemonAddress{text("grpc"), text("http"), text("agent_socket"), pid.value};
}

absl::StatusOr<PrivateDaemon> PrivateDaemon::Start(const std::string& data_dir, const std::vector<std::string>& overrides) {
  const std::string program = FindBundle().daemon;
  std::error_code error;
  std::filesystem::create_directories(data_dir, error);
  if (error) {
    return absl::FailedPreconditionError(
        fmt::format("cannot create {}: {}; give a writable directory with --data-dir", data_dir, error.message()));
  }
  std::vector<std::string> args = {program,
                                   "--private",
                                   "--data-dir",
                                   data_dir,
                                   "--port",
                                   "0",
                                   "--http-port",
                                   "0",
                                   "--exit-with-parent",
                                   std::to_string(getpid())};
  for (const std::string& item : overrides) args.insert(args.end(), {"--set", item});
  std::vector<char*> argv;
  argv.reserve(args.size() + 1);
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);

  const std::string log = data_dir + "/daemon.log";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // A group of its own: a Ctrl-C at the terminal is for the user's program, the daemon still has its last rows to store.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t pid = 0;
  const int failed = posix_spawn(&pid, program.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) return ErrnoStatus(failed, fmt::format("start {}", program), "build or install stepscoped beside stepscope");

  const auto deadline = std::chrono::steady_clock::now() + kStartTimeout;
  while (std::chrono::steady_clock::now() < deadline) {
    if (auto address = FindPrivateDaemon(data_dir); address.ok() && address->pid == pid) return PrivateDaemon(pid, *address);
    int status = 0;
    if (waitpid(pid, &status, WNOHANG) == pid) {
      const unique_fd file(open(log.c_str(), O_RDONLY | O_CLOEXEC));
      std::string said = ReadAll(file.get());
      while (!said.empty() && said.back() == '\n') said.pop_back();
      return absl::UnavailableError(said.empty() ? fmt::format("{} ended at once", program) : said);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(pid, SIGTERM);
  waitpid(pid, nullptr, 0);
  return absl::DeadlineExceededError(fmt::format("{} did not serve within 20 s; see {}", program, log));
}

PrivateDaemon::PrivateDaemon(PrivateDaemon&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), address_(std::move(other.address_)) {}

PrivateDaemon::~PrivateDaemon() {
  if (pid_ <= 0) return;
  kill(pid_, SIGTERM);
  waitpid(pid_, nullptr, 0);
}

}  // namespace stepscope::cli
