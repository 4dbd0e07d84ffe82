// SPDX-License-Identifier: Apache-2.0
// Makes children in one of the ways there are, as fast as it can, and lets each annotate.
//
//   forks WAY CHILDREN BUSY_THREADS ANNOTATIONS
//
// A child may use one second of CPU time and half a minute of anybody's; then it counts as hung.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "ledger.h"

enum { kAtOnce = 16, kHungSeconds = 30 };

extern char** environ;
static const char* self;
static long annotations;
static struct {
  pid_t pid;
  time_t born;
} children[kAtOnce];
static int alive;
static long hung, failed;

static time_t Seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

static void LimitCpu(void) {
  struct rlimit second = {1, 1};
  setrlimit(RLIMIT_CPU, &second);
}

__attribute__((noreturn)) static void BeChild(void) {
  LimitCpu();
  is_stray_copy = 0;
  StartSeries();
  AnnotateTimes(annotations);
  NoteUnheard();
  _exit(0);
}

static void Account(int i, int status) {
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    ++failed;
    fprintf(stderr, "child: wait status %#x\n", status);
  }
  children[i] = children[--alive];
}

static void Reap(int most_left) {
  while (alive > most_left) {
    int reaped = 0;
    for (int i = alive - 1; i >= 0; --i) {
      int status = 0;
      if (waitpid(children[i].pid, &status, WNOHANG) == children[i].pid) {
        Account(i, status);
        reaped = 1;
      } else if (Seconds() - children[i].born > kHungSeconds) {
        ++hung;
        kill(children[i].pid, SIGKILL);
        children[i].born = Seconds();
      }
    }
    if (!reaped) usleep(200);
  }
}

static void Adopt(pid_t pid) {
  if (pid < 0) Fail("no child");
  children[alive].pid = pid;
  children[alive++].born = Seconds();
}

static pid_t Fork(void) {
  pid_t pid = fork();
  if (pid == 0) BeChild();
  return pid;
}

/* Shares memory with its parent: it must do nothing but end or execute. */
static pid_t Vfork(void) {
  pid_t pid = vfork();
  if (pid == 0) _exit(0);
  return pid;
}

static pid_t VforkExec(void) {
  char number[24];
  snprintf(number, sizeof(number), "%ld", annotations);
  pid_t pid = vfork();
  if (pid == 0) {
    execl(self, self, "child", number, (char*)NULL);
    _exit(71);
  }
  return pid;
}

/* A fork no library hears of. */
static pid_t RawClone(void) {
  pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (pid == 0) BeChild();
  return pid;
}

static pid_t Spawn(void) {
  char number[24];
  snprintf(number, sizeof(number), "%ld", annotations);
  char* arguments[] = {(char*)self, "child", number, NULL};
  pid_t pid = -1;
  errno = posix_spawn(&pid, self, NULL, NULL, arguments, environ);
  return pid;
}

/* A child that annotates before and after a child of its own. */
static pid_t Grandchild(void) {
  pid_t pid = fork();
  if (pid != 0) return pid;
  LimitCpu();
  StartSeries();
  AnnotateTimes(annotations);
  pid_t second = fork();
  if (second == 0) BeChild();
  AnnotateTimes(annotations);
  int status = 0;
  waitpid(second, &status, 0);
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 72);
}

static void* AnnotateInThread(void* unused) {
  (void)unused;
  StartSeries();
  AnnotateTimes(annotations);
  return NULL;
}

/* A child whose two threads both make its first record while it forks once more. */
static pid_t Opening(void) {
  pid_t pid = fork();
  if (pid != 0) return pid;
  LimitCpu();
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, AnnotateInThread, NULL);
  pid_t second = fork();
  if (second == 0) BeChild();
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  int status = 0;
  waitpid(second, &status, 0);
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 72);
}

/* The span stays the parent's: the child neither ends nor counts it. */
static pid_t Inside(void) {
  BeginWork();
  pid_t pid = fork();
  if (pid == 0) {
    stepscope_end();
    BeChild();
  }
  EndWork();
  return pid;
}

static volatile sig_atomic_t wants_child;
static volatile pid_t forked;

/* Forks wherever the signal found the thread, most often inside an annotation. Odd children return there, even ones end here. */
static void ForkInHandler(int signal) {
  (void)signal;
  static long count;
  if (!wants_child) return;
  wants_child = 0;
  ++count;
  forked = fork();
  if (forked != 0) return;
  if (count % 2 == 0) BeChild();
  LimitCpu();
  is_stray_copy = 1;
}

static pid_t InHandler(void) {
  forked = 0;
  wants_child = 1;
  while (forked == 0 && !is_stray_copy) Annotate();
  if (is_stray_copy) BeChild();
  return forked;
}

static void TickEveryMillisecond(void) {
  struct sigaction action = {0};
  action.sa_handler = ForkInHandler;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, NULL);
  struct itimerval every = {{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &every, NULL);
}

int main(int count, char** arguments) {
  OpenLedger();
  StartSeries();
  self = arguments[0];
  if (count == 3 && strcmp(arguments[1], "child") == 0) {
    AnnotateTimes(atol(arguments[2]));
    return 0;
  }
  static const struct {
    const char* name;
    pid_t (*make)(void);
  } kWays[] = {{"fork", Fork},      {"vfork", Vfork},       {"vfork_exec", VforkExec},
               {"clone", RawClone}, {"spawn", Spawn},       {"grandchild", Grandchild},
               {"inside", Inside},  {"handler", InHandler}, {"opening", Opening}};
  pid_t (*make)(void) = NULL;
  for (size_t i = 0; count == 5 && i < sizeof(kWays) / sizeof(kWays[0]); ++i) {
    if (strcmp(kWays[i].name, arguments[1]) == 0) make = kWays[i].make;
  }
  if (make == NULL) return 64;
  const long wanted = atol(arguments[2]);
  const long busy = atol(arguments[3]);
  annotations = atol(arguments[4]);

  Annotate();
  sigset_t ticks;
  sigemptyset(&ticks);
  sigaddset(&ticks, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &ticks, NULL);
  for (long i = 0; i < busy; ++i) {
    pthread_t thread;
    pthread_create(&thread, NULL, AnnotateForever, NULL);
  }
  pthread_sigmask(SIG_UNBLOCK, &ticks, NULL);
  if (make == InHandler) TickEveryMillisecond();
  for (long made = 0; made < wanted; ++made) {
    Adopt(make());
    Reap(kAtOnce - 1);
    Annotate();
  }
  Reap(0);
  printf("%ld children, %ld hung, %ld failed\n", wanted, hung, failed);
  return 0;
}
