// SPDX-License-Identifier: Apache-2.0
// Test side of sched_workload: starts it, talks to it, and reads the kernel's own counters of its threads.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/proc_stat.h"
#include "daemon/collector/sched_proc_scan.h"
#include "fork_as.h"

namespace stepscope {

/// The kernel's books of one blocked thread.
struct KernelBooks {
  uint64_t switches = 0;
  int64_t exec_ns = 0;
  int64_t run_delay_ns = 0;
  int64_t min_faults = 0;
  int64_t maj_faults = 0;
  friend bool operator==(const KernelBooks&, const KernelBooks&) = default;
};

class RecordedProcess {
 public:
  /// Forks, under the process id `as` if it is not 0 (pid() is -1 where that is refused); the child waits for Exec().
  explicit RecordedProcess(const std::string& scenario = "mixed", pid_t as = 0) {
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) abort();
    pid_ = ForkAs(as);
    if (pid_ == 0) {
      // Plain system calls: a sanitizer's functions may wait for a lock of a thread that this process does not have.
      syscall(SYS_setpgid, 0, 0);
      syscall(SYS_dup3, in[0], 0, 0);
      syscall(SYS_dup3, out[1], 1, 0);
      char go;
      if (syscall(SYS_read, 0, &go, 1) != 1) _exit(1);
      execl(SCHED_WORKLOAD, "sched_workload", scenario.c_str(), nullptr);
      _exit(127);
    }
    if (pid_ > 0) setpgid(pid_, pid_);
    close(in[0]);
    close(out[1]);
    to_ = in[1];
    from_ = out[0];
  }
  ~RecordedProcess() {
    if (pid_ > 0) {
      kill(-pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(to_);
    close(from_);
  }

  pid_t pid() const { return pid_; }
  std::string Exec() {
    if (write(to_, "x", 1) != 1) return "";
    return ReadLine();
  }
  /// Sends one command and waits for its answer.
  std::string Do(const std::string& command) {
    Tell(command);
    return Answer();
  }
  void Tell(const std::string& command) {
    const std::string line = command + "\n";
    if (write(to_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) abort();
  }
  std::string Answer() { return ReadLine(); }

  /// Counters of every thread of `pid`, once all of them sleep for good: off their CPUs (the kernel answers "running" to
  /// /proc/…/syscall until then, whatever the state letter says), not in a short uninterruptible wait such as a page fault's for
  /// the address space's lock, and with the same counters in two readings.
  static std::map<int32_t, KernelBooks> Books(pid_t pid) {
    std::map<int32_t, KernelBooks> last;
    auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < deadline) {
      std::map<int32_t, KernelBooks> books;
      bool all_sleep = true;
      const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
      for (int32_t tid : ProcScan("/proc").Threads(pid)) {
        const std::string task = tasks + "/" + std::to_string(tid);
        const auto stat = ReadProcStat(Pid{tid}, tasks);
        if (ReadAll(task + "/syscall").starts_with("running") || !stat || stat->state == 'D') all_sleep = false;
        books[tid] = ReadBooks(task);
      }
      if (all_sleep && !books.empty() && books == last) return books;
      last = all_sleep ? std::move(books) : decltype(books){};
    }
    return {};
  }

 private:
  static std::string ReadAll(const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static KernelBooks ReadBooks(const std::string& task) {
    KernelBooks books;
    std::istringstream status(ReadAll(task + "/status"));
    for (std::string key; status >> key;) {
      uint64_t count = 0;
      if (key == "voluntary_ctxt_switches:" || key == "nonvoluntary_ctxt_switches:") status >> count;
      books.switches += count;
    }
    std::istringstream(ReadAll(task + "/schedstat")) >> books.exec_ns >> books.run_delay_ns;
    const std::string stat = ReadAll(task + "/stat");
    std::istringstream fields(stat.substr(stat.rfind(')') + 1));
    std::string field;
    for (int number = 3; fields >> field; ++number) {
      if (number == 10) books.min_faults = std::stoll(field);
      if (number == 12) books.maj_faults = std::stoll(field);
    }
    return books;
  }
  std::string ReadLine() {
    std::string line;
    char c;
    pollfd ready{from_, POLLIN, 0};
    while (poll(&ready, 1, 60'000) == 1 && read(from_, &c, 1) == 1 && c != '\n') line += c;
    return line;
  }

  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
};

}  // namespace stepscope
