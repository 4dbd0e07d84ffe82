// SPDX-License-Identifier: Apache-2.0
// A small program that uses the public C API in the ways processes do: threads, forks, clones, sudden death. Run by the process
// tests; `annotator MODE ARGUMENTS…`, each mode below. Prints numbers the test checks against what reached the daemon.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stepscope/stepscope.h"

enum { kMaxThreads = 64 };
static _Atomic uint64_t* progress;  // per thread: steps whose end has returned
static long steps_per_thread;
static long pace_us;

static void Step(stepscope_name name, int64_t number) {
  name.has_number = 1;
  name.number = number;
  stepscope_begin(name);
  stepscope_end();
}

static void* StepForever(void* thread) {
  stepscope_name name = stepscope_intern("step", 4, STEPSCOPE_DOMAIN_STEP);
  for (int64_t n = 0;; ++n) {
    Step(name, n);
    atomic_store_explicit(&progress[(long)thread], (uint64_t)n + 1, memory_order_release);
    if (pace_us != 0 && n % 16 == 0) usleep((useconds_t)pace_us);
  }
  return NULL;
}

static void* StepSome(void* thread) {
  (void)thread;
  stepscope_name name = stepscope_intern("step", 4, STEPSCOPE_DOMAIN_STEP);
  for (int64_t n = 0; n < steps_per_thread; ++n) {
    Step(name, n);
    if (pace_us != 0 && n % 16 == 0) usleep((useconds_t)pace_us);
  }
  return NULL;
}

static void RunThreads(long count, void* (*work)(void*)) {
  pthread_t threads[kMaxThreads];
  for (long i = 0; i < count; ++i) pthread_create(&threads[i], NULL, work, (void*)i);
  for (long i = 0; i < count; ++i) pthread_join(threads[i], NULL);
}

// spin THREADS PACE_US PROGRESS_FILE: until killed.
static int Spin(char** arguments) {
  int fd = open(arguments[2], O_RDWR);
  progress = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (progress == MAP_FAILED) return 1;
  pace_us = atol(arguments[1]);
  RunThreads(atol(arguments[0]), StepForever);
  return 0;
}

// steps THREADS N PACE_US FLUSH_MS: prints "lost L flushed F".
static int Steps(char** arguments) {
  steps_per_thread = atol(arguments[1]);
  pace_us = atol(arguments[2]);
  RunThreads(atol(arguments[0]), StepSome);
  int flushed = atoi(arguments[3]) != 0 ? stepscope_flush(atoi(arguments[3])) : 0;
  if (atoi(arguments[3]) != 0 && !flushed) fprintf(stderr, "not flushed: %s\n", stepscope_state());
  printf("lost %llu flushed %d\n", (unsigned long long)stepscope_lost(), flushed);
  return 0;
}

// generations ROUNDS [PAUSE_MS]: 8 short threads each round, all of it acknowledged before the next; or 32 of them and a pause.
static int Generations(char** arguments) {
  steps_per_thread = 1;
  int flushed = 1;
  for (long round = 0; round < atol(arguments[0]); ++round) {
    RunThreads(arguments[1] == NULL ? 8 : 32, StepSome);
    if (arguments[1] == NULL) {
      flushed &= stepscope_flush(5000);
    } else {
      usleep((useconds_t)atol(arguments[1]) * 1000);
    }
  }
  if (arguments[1] != NULL) flushed = stepscope_flush(5000);
  printf("lost %llu flushed %d\n", (unsigned long long)stepscope_lost(), flushed);
  return 0;
}

static void AnnotateChildAndDie(void) {
  stepscope_annotate_begin("in the child");
  stepscope_end();
  _exit(0);
}

static int Reap(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  stepscope_annotate_begin("after the child");
  stepscope_end();
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}

static int Fork(char** arguments) {
  (void)arguments;
  stepscope_annotate_begin("before the child");
  stepscope_end();
  pid_t child = fork();
  if (child == 0) AnnotateChildAndDie();
  return Reap(child);
}

// A fork no library hears of.
static int RawClone(char** arguments) {
  (void)arguments;
  stepscope_annotate_begin("before the child");
  stepscope_end();
  pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (child == 0) {
    if (stepscope_lost() != 0 || stepscope_flush(0) != 0) _exit(1);  // before its first record nothing of it exists
    AnnotateChildAndDie();
  }
  return Reap(child);
}

static int Vfork(char** arguments) {
  (void)arguments;
  stepscope_annotate_begin("before the child");
  stepscope_end();
  pid_t child = vfork();
  if (child == 0) _exit(0);
  return Reap(child);
}

// Forks while other threads record all the time.
static int ForkBusy(char** arguments) {
  static _Atomic uint64_t dummy[kMaxThreads];
  progress = dummy;
  pace_us = 50;
  pthread_t thread;
  for (long i = 0; i < 3; ++i) pthread_create(&thread, NULL, StepForever, (void*)i);
  for (long i = 0; i < atol(arguments[0]); ++i) {
    pid_t child = fork();
    if (child == 0) AnnotateChildAndDie();
    if (Reap(child) != 0) return 1;
  }
  return 0;
}

// A program that closes every descriptor it does not know and opens its own; prints "intact" if ours left them alone.
static int CloseDescriptors(char** arguments) {
  (void)arguments;
  stepscope_annotate_begin("before");
  stepscope_end();
  for (int fd = 3; fd < 1024; ++fd) close(fd);
  int pair[2];
  if (pipe(pair) != 0) return 1;
  for (int fd = 500; fd < 540; ++fd) dup2(pair[1], fd);
  for (int i = 0; i < 30; ++i) {
    stepscope_annotate_begin("after");
    stepscope_end();
    stepscope_flush(20);
  }
  fcntl(pair[0], F_SETFL, O_NONBLOCK);
  char byte;
  for (int fd = 500; fd < 540; ++fd) {
    if (fcntl(fd, F_GETFD) < 0) return 1;
  }
  printf("%s\n", read(pair[0], &byte, 1) < 0 ? "intact" : "disturbed");
  return 0;
}

static _Atomic uint64_t handled;
static void AnnotateInHandler(int signal) {
  (void)signal;
  stepscope_annotate_begin("handler");
  stepscope_end();
  handled += 1;
}

// A signal handler that records, interrupting recording; prints "produced P lost L".
static int Signals(char** arguments) {
  struct sigaction action = {0};
  action.sa_handler = AnnotateInHandler;
  sigaction(SIGALRM, &action, NULL);
  struct itimerval every = {{0, 100}, {0, 100}};
  setitimer(ITIMER_REAL, &every, NULL);
  stepscope_name name = stepscope_intern("step", 4, STEPSCOPE_DOMAIN_STEP);
  long steps = atol(arguments[0]);
  for (long n = 0; n < steps; ++n) Step(name, n);
  struct itimerval never = {0};
  setitimer(ITIMER_REAL, &never, NULL);
  printf("produced %llu lost %llu\n", (unsigned long long)(2 * ((uint64_t)steps + handled)),
         (unsigned long long)stepscope_lost());
  return 0;
}

static uint64_t NowNs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// cost PAIRS ROUNDS: prints the best round's ns per begin/end pair. Each round fits into a drained ring.
static int Cost(char** arguments) {
  long pairs = atol(arguments[0]);
  double best = 1e9;
  stepscope_name name = stepscope_intern("step", 4, STEPSCOPE_DOMAIN_STEP);
  for (long round = 0; round < atol(arguments[1]); ++round) {
    uint64_t start = NowNs();
    for (long n = 0; n < pairs; ++n) {
      stepscope_begin(name);
      stepscope_end();
    }
    double ns = (double)(NowNs() - start) / (double)pairs;
    if (ns < best) best = ns;
    stepscope_flush(500);
  }
  printf("%.1f ns per pair, lost %llu, %s\n", best, (unsigned long long)stepscope_lost(), stepscope_state());
  return 0;
}

// first: prints the microseconds of the call that opens the session.
static int First(char** arguments) {
  (void)arguments;
  uint64_t start = NowNs();
  stepscope_annotate_begin("first");
  printf("%.1f us, %s\n", (double)(NowNs() - start) / 1000.0, stepscope_state());
  stepscope_end();
  return 0;
}

int main(int count, char** arguments) {
  static const struct {
    const char* name;
    int (*run)(char**);
  } kModes[] = {{"spin", Spin},
                {"steps", Steps},
                {"fork", Fork},
                {"clone", RawClone},
                {"vfork", Vfork},
                {"fork_busy", ForkBusy},
                {"close", CloseDescriptors},
                {"signals", Signals},
                {"cost", Cost},
                {"first", First},
                {"generations", Generations}};
  if (count < 2) return 2;
  for (size_t i = 0; i < sizeof(kModes) / sizeof(kModes[0]); ++i) {
    if (strcmp(kModes[i].name, arguments[1]) == 0) return kModes[i].run(arguments + 2);
  }
  return 2;
}
