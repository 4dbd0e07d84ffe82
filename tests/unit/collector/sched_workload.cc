// SPDX-License-Identifier: Apache-2.0
// A process for the live tests to record. It obeys one command per line on stdin and answers one line on stdout; between
// commands every thread of it is blocked, so the kernel's counters stand still.
// The threads of "run N" are those of the scenario given as first argument; see kScenarios.
// - run N: each thread does N rounds of its part
// - burn N: the main thread spins for N ms of CPU time
// - fork N: N children, one after the other, each with one thread that exits
// - spawn N: N children that stay, blocked, until quit; answers their pids
// - exec: a thread that is not the leader executes this program again
// - name HEX: the main thread names itself so, byte by byte; no HEX is the empty name
// - nap PID: a child with that process id that naps, a millisecond at a time, until quit
// - zombie N: N children that end at once and that nobody waits for; answers their pids
// - leave: the main thread ends; another one goes on
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "fork_as.h"

namespace {

// Threads wait here between jobs and when done, so that they are alive and blocked at both readings.
class Gate {
 public:
  void Work(const std::vector<void (*)(int)>& jobs) {
    for (auto job : jobs) {
      std::thread([this, job] {
        for (int seen = 0;;) {
          int rounds;
          {
            std::unique_lock lock(mutex_);
            go_.wait(lock, [&] { return generation_ != seen; });
            seen = generation_;
            rounds = rounds_;
          }
          job(rounds);
          std::lock_guard lock(mutex_);
          if (--busy_ == 0) done_.notify_one();
        }
      }).detach();
    }
    threads_ = static_cast<int>(jobs.size());
  }
  void Run(int rounds) {
    std::unique_lock lock(mutex_);
    rounds_ = rounds;
    busy_ = threads_;
    ++generation_;
    go_.notify_all();
    done_.wait(lock, [&] { return busy_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable go_, done_;
  int generation_ = 0, rounds_ = 0, busy_ = 0, threads_ = 0;
};

int g_there[2], g_back[2];
std::mutex g_turn_mutex;
std::condition_variable g_turn_changed;
int g_turn = 0;

void PipePing(int rounds) {
  char byte = 0;
  for (int i = 0; i < rounds; ++i) {
    if (write(g_there[1], &byte, 1) != 1 || read(g_back[0], &byte, 1) != 1) abort();
  }
}
void PipePong(int rounds) {
  char byte = 0;
  for (int i = 0; i < rounds; ++i) {
    if (read(g_there[0], &byte, 1) != 1 || write(g_back[1], &byte, 1) != 1) abort();
  }
}
void TakeTurns(int me, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    std::unique_lock lock(g_turn_mutex);
    g_turn_changed.wait(lock, [&] { return g_turn == me; });
    g_turn = 1 - me;
    g_turn_changed.notify_one();
  }
}
void FutexPing(int rounds) { TakeTurns(0, rounds); }
void FutexPong(int rounds) { TakeTurns(1, rounds); }
// Changes its CPU before each sleep: its records go to another ring each time where a CPU has its own. The sleep is long enough
// that an emulated CPU leaves the CPU before it is over.
void Sleeper(int rounds) {
  long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  for (int i = 0; i < rounds / 100; ++i) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(i % cpus), &one);
    sched_setaffinity(0, sizeof(one), &one);
    usleep(1000);
  }
}

void PinTo(size_t cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  sched_setaffinity(0, sizeof(one), &one);
}

int64_t ThreadCpuNs() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000ll + now.tv_nsec;
}

void BurnMs(int ms) {
  for (const int64_t until = ThreadCpuNs() + ms * 1'000'000ll; ThreadCpuNs() < until;) {
  }
}

void PinnedPing(int rounds) {
  PinTo(0);
  PipePing(rounds);
}
void PinnedPong(int rounds) {
  PinTo(0);
  PipePong(rounds);
}
void Victim(int ms) {
  PinTo(0);
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 10);
  BurnMs(ms);
}
void Hog(int ms) {
  PinTo(0);
  BurnMs(ms);
}
void HogOfTheLastCpu(int ms) {
  PinTo(static_cast<size_t>(sysconf(_SC_NPROCESSORS_ONLN) - 1));
  BurnMs(ms);
}
// Runs against the hogs of both CPUs, and is sent back and forth while it waits.
std::atomic<pid_t> g_migrant{0};
void Migrant(int ms) {
  g_migrant = gettid();
  BurnMs(ms);
  g_migrant = 0;
}
void Pusher(int ms) {
  const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  for (int i = 0; i < ms; ++i) {
    usleep(1000);
    const pid_t migrant = g_migrant;
    if (migrant == 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(i % cpus), &one);
    sched_setaffinity(migrant, sizeof(one), &one);
  }
}

int g_client = -1, g_server = -1;
void OpenLoopback() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener, 1) != 0) abort();
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  g_client = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(g_client, reinterpret_cast<sockaddr*>(&address), size) != 0) abort();
  g_server = accept(listener, nullptr, nullptr);
  const int on = 1;
  setsockopt(g_client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(g_server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}
void NetPing(int rounds) {
  char byte = 0;
  for (int i = 0; i < rounds; ++i) {
    if (send(g_client, &byte, 1, 0) != 1 || recv(g_client, &byte, 1, 0) != 1) abort();
  }
}
void NetPong(int rounds) {
  char byte = 0;
  for (int i = 0; i < rounds; ++i) {
    if (recv(g_server, &byte, 1, 0) != 1 || send(g_server, &byte, 1, 0) != 1) abort();
  }
}
void Nanosleeper(int rounds) {
  for (int i = 0; i < rounds; ++i) usleep(200);
}
void Poller(int rounds) {
  pollfd nothing{g_there[0], POLLIN, 0};
  for (int i = 0; i < rounds; ++i) poll(&nothing, 1, 1);
}
void Faulter(int rounds) {
  constexpr size_t kBytes = 4 << 20;
  for (int i = 0; i < rounds; ++i) {
    void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, kBytes, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < kBytes; at += 4096) static_cast<volatile char*>(memory)[at] = 1;
    munmap(memory, kBytes);
  }
}
void ThreadStorm(int rounds) {
  for (int i = 0; i < rounds; ++i) std::thread([] {}).join();
}

using Job = void (*)(int);
const std::map<std::string, std::vector<Job>> kScenarios = {
    {"mixed", {PipePing, PipePong, FutexPing, FutexPong, Sleeper}},
    {"futex", {FutexPing, FutexPong}},
    {"pinned pipe", {PinnedPing, PinnedPong}},
    {"victim", {Victim}},
    {"hog", {Hog}},
    {"three hogs", {Hog, Hog, Hog}},
    {"migration storm", {Hog, HogOfTheLastCpu, Migrant, Pusher}},
    {"loopback", {NetPing, NetPong}},
    {"nanosleep", {Nanosleeper}},
    {"poll", {Poller}},
    {"faults", {Faulter}},
    {"thread storm", {ThreadStorm}},
    {"thread flood", {ThreadStorm, ThreadStorm}},
};

void Fork(int count) {
  for (int i = 0; i < count; ++i) {
    pid_t child = fork();
    if (child == 0) {
      std::thread([] { usleep(50); }).join();
      _exit(0);
    }
    waitpid(child, nullptr, 0);
  }
}

std::string Spawn(int count) {
  std::string pids;
  for (int i = 0; i < count; ++i) {
    pid_t child = fork();
    if (child == 0) {
      for (;;) pause();
    }
    pids += std::to_string(child) + " ";
  }
  return pids;
}

std::string LeaveZombies(int count) {
  std::string pids;
  for (int i = 0; i < count; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    pids += std::to_string(child) + " ";
  }
  return pids;
}

std::string Nap(pid_t as) {
  const pid_t child = stepscope::ForkAs(as);
  while (child == 0) usleep(1000);
  return std::to_string(child);
}

void NameMainThread(const std::string& hex) {
  std::string name;
  for (size_t at = 0; at + 1 < hex.size(); at += 2) name += static_cast<char>(std::stoi(hex.substr(at, 2), nullptr, 16));
  prctl(PR_SET_NAME, name.c_str());
}

void Serve(Gate& gate, char** argv) {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string command, argument, answer = "done";
    words >> command >> argument;
    const int count = std::atoi(argument.c_str());
    if (command == "run") gate.Run(count);
    if (command == "burn") BurnMs(count);
    if (command == "fork") Fork(count);
    if (command == "spawn") answer = Spawn(count);
    if (command == "exec") std::thread([argv] { execv("/proc/self/exe", argv); }).join();
    if (command == "name") NameMainThread(argument);
    if (command == "nap") answer = Nap(count);
    if (command == "zombie") answer = LeaveZombies(count);
    std::cout << answer << std::endl;
    if (command != "leave") continue;
    std::thread([&gate, argv] { Serve(gate, argv); }).detach();
    syscall(SYS_exit, 0);  // of this thread alone, and without unwinding: the others stand on its stack
  }
  kill(0, SIGKILL);
}

}  // namespace

int main(int, char** argv) {
  if (pipe(g_there) != 0 || pipe(g_back) != 0) return 1;
  Gate gate;
  OpenLoopback();
  gate.Work(kScenarios.at(argv[1]));
  std::cout << "ready" << std::endl;
  Serve(gate, argv);
}
