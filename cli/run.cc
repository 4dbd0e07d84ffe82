// SPDX-License-Identifier: Apache-2.0
// `stepscope run [--job N] -- CMD…`: runs CMD with the agent's environment as a job. Whatever goes wrong on our side costs one
// line on stderr: CMD runs all the same, and its exit code is ours.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/unique_fd.h"
#include "cli/bundle.h"
#include "cli/command.h"
#include "cli/connect.h"
#include "cli/text_table.h"

namespace stepscope::cli {
namespace {

struct RunOptions {
  std::string job;
  std::vector<std::string> overrides;
  std::vector<std::string> command;
  int wait_upload_s = 30;
  bool quiet = false;
};

std::string CommandLine(const std::vector<std::string>& command) {
  std::string line;
  for (const std::string& word : command) line += (line.empty() ? "" : " ") + word;
  return line.substr(0, 1000);
}

/// The command, stopped before its exec until Release(): so that it is followed from its first instruction.
class HeldChild {
 public:
  explicit HeldChild(const std::vector<std::string>& command) : command_(command) {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) return;
    hold_write_.reset(fds[1]);
    const unique_fd hold_read(fds[0]);
    pid_ = fork();
    if (pid_ == 0) Exec(hold_read.get());
  }
  pid_t pid() const { return pid_; }
  /// Lets it exec; `agent_socket` empty = without our environment.
  void Release(const std::string& agent_socket) {
    // A child that was killed meanwhile has closed its end: then there is nobody to tell.
    const ssize_t ignored = write(hold_write_.get(), agent_socket.data(), agent_socket.size());
    static_cast<void>(ignored);
    hold_write_.reset();
  }

 private:
  /// In the child: the parent writes the agent socket's path, or just closes.
  [[noreturn]] void Exec(int hold_read) {
    hold_write_.reset();
    std::string agent_socket;
    char buffer[512];
    ssize_t n = 0;
    while ((n = read(hold_read, buffer, sizeof(buffer))) > 0 || (n < 0 && errno == EINTR)) {
      if (n > 0) agent_socket.append(buffer, static_cast<size_t>(n));
    }
    if (!agent_socket.empty()) SetEnvironment(agent_socket);
    std::vector<char*> argv;
    argv.reserve(command_.size() + 1);
    for (const std::string& word : command_) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    fprintf(stderr, "stepscope: %s: %s\n", argv[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
  }
  static void SetEnvironment(const std::string& agent_socket) {
    const Bundle bundle = FindBundle();
    const char* old_path = getenv("PYTHONPATH");
    const std::string path = old_path != nullptr && *old_path != '\0' ? bundle.inject + ":" + old_path : bundle.inject;
    setenv("STEPSCOPE_SOCKET", agent_socket.c_str(), 1);
    setenv("STEPSCOPE_PYTHON_DIR", bundle.python.c_str(), 1);
    setenv("PYTHONPATH", path.c_str(), 1);
  }

  const std::vector<std::string>& command_;
  unique_fd hold_write_;
  pid_t pid_ = -1;
};

/// Signals the terminal or a scheduler sends to us are meant for the command.
pid_t g_child = 0;
void Forward(int signal_number) {
  if (g_child > 0) kill(g_child, signal_number);
}
void ForwardSignals(pid_t child) {
  g_child = child;
  struct sigaction action{};
  action.sa_handler = Forward;
  for (const int number : {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) sigaction(number, &action, nullptr);
  // The terminal sends these to the whole foreground group: the command has its own.
  action.sa_handler = SIG_IGN;
  for (const int number : {SIGINT, SIGQUIT, SIGPIPE}) sigaction(number, &action, nullptr);
}
void RestoreSignals() {
  for (const int number : {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGINT, SIGQUIT, SIGPIPE}) signal(number, SIG_DFL);
}

int WaitFor(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

absl::StatusOr<v1::Job> Start(Connection& connection, const RunOptions& options, pid_t child) {
  v1::StartJobRequest request;
  request.set_name(options.job);
  request.set_id(options.job);
  request.set_kind("run");
  request.set_pid(child);
  request.set_command(CommandLine(options.command));
  return Call(connection.control(), &v1::ControlService::Stub::StartJob, request);
}

/// Waits until the upload is done or failed, or the time is over; returns the last state seen.
v1::UploadState WaitForUpload(Connection& connection, const std::string& job, int seconds, bool quiet) {
  v1::UploadState state;
  const bool terminal = isatty(STDERR_FILENO) != 0 && !quiet;
  for (int tenths = 0; tenths <= seconds * 10; ++tenths) {
    v1::GetUploadRequest request;
    request.set_job(job);
    const auto answer = Call(connection.control(), &v1::ControlService::Stub::GetUpload, request);
    if (!answer.ok()) return state;
    state = *answer;
    if (state.state() != "pending" && state.state() != "running") break;
    if (terminal) fprintf(stderr, "\rstepscope: uploading %.0f %%", state.percent());
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  if (terminal) fprintf(stderr, "\r\033[K");
  return state;
}

void Finish(Connection& connection, const v1::Job& job, const RunOptions& options) {
  v1::EndJobRequest end;
  end.set_job(job.job());
  end.set_reason("the command ended");
  const auto ended = Call(connection.control(), &v1::ControlService::Stub::EndJob, end);
  if (!ended.ok()) {
    Fail(ended.status());
    return;
  }
  const v1::UploadState upload = WaitForUpload(connection, job.job(), options.wait_upload_s, options.quiet);
  if (options.quiet) return;
  int64_t rows = 0;
  int64_t lost = 0;
  for (const auto& table : ended->tables()) rows += static_cast<int64_t>(table.rows());
  for (const auto& loss : ended->loss()) lost += std::max<int64_t>(loss.count(), 1);
  fprintf(stderr, "stepscope: job %s: %s rows of %d ranks, %s lost\n", job.name().c_str(), Count(rows).c_str(),
          ended->ranks_size(), Count(lost).c_str());
  if (upload.state() != "off" && !upload.state().empty()) {
    fprintf(stderr, "stepscope: upload to %s: %s%s%s\n", upload.url().c_str(), upload.state().c_str(),
            upload.reason().empty() ? "" : ": ", upload.reason().c_str());
  }
  fprintf(stderr, "stepscope: look at it with: stepscope %sreport %s\n", connection.hint().c_str(), job.name().c_str());
}

int Run(const Globals& globals, const RunOptions& options) {
  HeldChild child(options.command);
  if (child.pid() < 0)
    return Fail(absl::ResourceExhaustedError("fork: the system refuses new processes; end some and try again"));
  ForwardSignals(child.pid());
  absl::StatusOr<std::unique_ptr<Connection>> connection = Connection::Open(globals, {options.overrides});
  absl::StatusOr<v1::Job> job = absl::UnavailableError("");
  if (connection.ok()) job = Start(**connection, options, child.pid());
  const absl::Status failed = !connection.ok() ? connection.status() : job.status();
  if (!failed.ok()) {
    fprintf(stderr, "stepscope: warning: %s; the command runs without being recorded\n", std::string(failed.message()).c_str());
  }
  child.Release(job.ok() ? (*connection)->agent_socket() : "");
  const int exit_code = WaitFor(child.pid());
  RestoreSignals();
  if (job.ok()) Finish(**connection, *job, options);
  return exit_code;
}

}  // namespace

void AddRun(CLI::App& app, const Globals& globals, int* exit_code) {
  auto* command = app.add_subcommand("run", "Run a command as a recorded job; its exit code is returned");
  auto options = std::make_shared<RunOptions>();
  command->add_option("--job", options->job, "name of the job (default: pid and start time)");
  command->add_option("--set", options->overrides, "section.key=value for a daemon started here; repeatable")
      ->allow_extra_args(false);
  command->add_option("--wait-upload", options->wait_upload_s, "seconds to wait for the upload after the command ended")
      ->capture_default_str();
  command->add_flag("--quiet", options->quiet, "print nothing of our own");
  command->add_option("command", options->command, "the command and its arguments, after --")->required();
  command->positionals_at_end();
  command->footer("Example: stepscope run --job demo -- torchrun --nproc-per-node 2 train.py");
  command->callback([&globals, options, exit_code] { *exit_code = Run(globals, *options); });
}

}  // namespace stepscope::cli
