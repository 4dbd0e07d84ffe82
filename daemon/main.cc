// SPDX-License-Identifier: Apache-2.0
// stepscoped: reads flags and configuration, starts the daemon, waits for signals. Wiring only.
#include <absl/synchronization/mutex.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>

#include "base/status.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "daemon/config.h"
#include "daemon/daemon.h"
#include "daemon/discovery.h"
#include "daemon/pipeline/pipeline.h"
#include "daemon/service_socket.h"
#include "daemon/version.h"

namespace stepscope {
namespace {

struct Flags {
  std::string config_path;
  std::vector<std::string> overrides;
  std::string data_dir;
  int port = -1;
  int http_port = -1;
  bool is_private = false;
  int parent = 0;
  bool check_config = false;
  bool print_config = false;
  bool print_pipeline = false;
  bool show_version = false;
};

int Fail(const absl::Status& status) {
  fprintf(stderr, "stepscoped: %s\n", std::string(status.message()).c_str());
  return 1;
}

/// Flags that stand for configuration keys become overrides, so that there is one way to set a value.
void AddShortcuts(Flags& flags) {
  if (!flags.data_dir.empty()) flags.overrides.push_back("store.path=" + flags.data_dir);
  if (flags.is_private && !flags.data_dir.empty()) {
    flags.overrides.push_back(fmt::format("agent.socket={}/agent.sock", flags.data_dir));
    flags.overrides.push_back("server.control_socket=");
  }
  if (flags.port >= 0) flags.overrides.push_back(fmt::format("server.grpc_address=127.0.0.1:{}", flags.port));
  if (flags.http_port >= 0) flags.overrides.push_back(fmt::format("server.http_address=127.0.0.1:{}", flags.http_port));
}

/// The signals main waits for, blocked in every thread started later.
unique_fd BlockedSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&set, signal);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a file over the limit is a failing store, not the end
  return unique_fd(signalfd(-1, &set, SFD_CLOEXEC));
}

void SetLogLevel(const Config& config) { spdlog::set_level(spdlog::level::from_str(config.log_level)); }

/// Reads the configuration again and takes of it what a running daemon can take; a bad file changes nothing.
void Reload(const Flags& flags, Config* config) {
  const auto read = LoadConfig(flags.config_path, getenv, flags.overrides);
  if (!read.ok()) return spdlog::error("SIGHUP: {}; the configuration stays as it was", std::string(read.status().message()));
  for (const ConfigChange& change : ChangesBetween(*config, *read)) {
    if (change.reloads) {
      spdlog::info("SIGHUP: {} is changed", change.key);
    } else {
      spdlog::warn("SIGHUP: {} has another value now; restart the daemon to apply it", change.key);
    }
  }
  config->log_level = read->log_level;
  SetLogLevel(*config);
}

/// Ticks once a second until a signal asks to stop.
void Run(Daemon& daemon, const unique_fd& signals, const std::function<void()>& reload) {
  for (;;) {
    pollfd waiting{signals.get(), POLLIN, 0};
    if (poll(&waiting, 1, 1000) > 0) {
      signalfd_siginfo info{};
      if (read(signals.get(), &info, sizeof(info)) != sizeof(info)) continue;
      if (info.ssi_signo != SIGHUP) return;
      NotifyServiceManager(fmt::format("RELOADING=1\nMONOTONIC_USEC={}", ReadClockNs(CLOCK_MONOTONIC) / 1000));
      reload();
      NotifyServiceManager("READY=1");
      continue;
    }
    daemon.Tick();
    // A disk without room is a state, not a hang: a restart would lose what is kept in memory until it has some.
    NotifyServiceManager("WATCHDOG=1");
    const absl::Status health = daemon.Health();
    NotifyServiceManager(health.ok() ? "STATUS=recording" : "STATUS=" + std::string(health.message()));
  }
}

/// Collectors and the pipeline fill and free like buffers many times a second; handing the pages back each time costs more than
/// moving the rows.
void KeepFreedMemory() {
  mallopt(M_TRIM_THRESHOLD, 4 << 20);
  mallopt(M_TOP_PAD, 256 << 10);
  mallopt(M_MMAP_THRESHOLD, 4 << 20);
}

int Serve(const Flags& flags, Config config) {
  KeepFreedMemory();
  // Abseil as Debian builds it looks for deadlocks at every lock of gRPC's.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  SetLogLevel(config);
  if (flags.parent != 0) {
    unsetenv("NOTIFY_SOCKET");  // the parent's, if it is a service
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != flags.parent) return 0;  // it ended before it was watched
  }
  const unique_fd signals = BlockedSignals();
  const std::unique_ptr<FdStore> fds = ServiceFdStore();
  auto daemon = Daemon::Start({config, flags.is_private, fds.get()});
  if (!daemon.ok()) return Fail(daemon.status());
  NotifyServiceManager("READY=1");
  Run(**daemon, signals, [&] { Reload(flags, &config); });
  NotifyServiceManager("STOPPING=1");
  (*daemon)->Stop();
  return 0;
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("stepscoped: collects, stores and serves what accelerators and CPUs of this node do");
  app.add_option("--config", flags.config_path, "configuration file (default /etc/stepscope/stepscoped.toml)");
  app.add_option("--set", flags.overrides, "section.key=value, overrides file and environment; repeatable")
      ->allow_extra_args(false);
  app.add_option("--data-dir", flags.data_dir, "directory of the store (store.path)");
  app.add_option("--port", flags.port, "gRPC port on 127.0.0.1, 0 = any free one");
  app.add_option("--http-port", flags.http_port, "HTTP port on 127.0.0.1, 0 = any free one");
  app.add_flag("--private", flags.is_private, "serve one user from --data-dir: its own sockets, found through daemon.json");
  app.add_option("--exit-with-parent", flags.parent, "stop when the starting process, whose pid this is, ends");
  app.add_flag("--check-config", flags.check_config, "read the configuration, say what is wrong, and exit");
  app.add_flag("--print-config", flags.print_config, "print every key with its default, and exit");
  app.add_flag("--print-pipeline", flags.print_pipeline, "print the stages in order, and exit");
  app.add_flag("--version", flags.show_version, "print the version, and exit");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (flags.show_version) return printf("stepscoped %s\n", kVersion) < 0;
  if (flags.print_config) return printf("%s", ConfigReference().c_str()) < 0;
  if (flags.print_pipeline) {
    for (const std::string& stage : Pipeline::StageNames()) printf("%s\n", stage.c_str());
    return 0;
  }
  if (flags.is_private && flags.data_dir.empty()) {
    return Fail(absl::InvalidArgumentError("--private needs --data-dir DIR: the directory it keeps its store in"));
  }
  if (!flags.data_dir.empty()) flags.data_dir = std::filesystem::absolute(flags.data_dir).lexically_normal();
  AddShortcuts(flags);
  const auto config = LoadConfig(flags.config_path, getenv, flags.overrides);
  if (!config.ok()) return Fail(config.status());
  if (flags.check_config) return printf("configuration is valid\n") < 0;
  return Serve(flags, *config);
}

}  // namespace
}  // namespace stepscope

int main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_logger_mt("stepscoped"));
  return stepscope::Main(argc, argv);
}
