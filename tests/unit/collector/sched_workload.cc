// SPDX-License-Identifier: Apache-2.0
// A process for the live tests to record. It obeys one command per line on stdin and answers one line on stdout; between
// commands every thread of it is blocked, so the kernel's counters stand still.
// - run N: two threads ping-pong N times over pipes, two over a condition variable, one sleeps N/100 times, changing CPUs
// - fork N: N children, one after the other, each with one thread that exits
// - spawn N: N children that stay, blocked, until quit; answers their pids
// - exec: a thread that is not the leader executes this program again
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

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

}  // namespace

int main(int, char** argv) {
  if (pipe(g_there) != 0 || pipe(g_back) != 0) return 1;
  Gate gate;
  gate.Work({PipePing, PipePong, FutexPing, FutexPong, Sleeper});
  std::cout << "ready" << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string command, answer = "done";
    int count = 0;
    words >> command >> count;
    if (command == "run") gate.Run(count);
    if (command == "fork") Fork(count);
    if (command == "spawn") answer = Spawn(count);
    if (command == "exec") std::thread([argv] { execv("/proc/self/exe", argv); }).join();
    std::cout << answer << std::endl;
  }
  kill(0, SIGKILL);
}
