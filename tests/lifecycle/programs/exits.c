// SPDX-License-Identifier: Apache-2.0
// Ends in one of the ways a process can, while two of its threads annotate. What stdio buffers hold, what handlers print and the
// exit status must be what they are without the agent.
//
//   exits ROUTE
//
// STOPPED_PID in the environment: that process, the daemon, is stopped first, and the sender left with more than it can send.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "ledger.h"

enum { kThreads = 2, kPauseUs = 200, kStatus = 23, kMoreThanFits = 30000 };

static pthread_key_t key;

static void Say(const char* text) {
  if (write(STDOUT_FILENO, text, strlen(text)) < 0) _exit(71);
}

static void SayInHandler(void) {
  StartSeries();
  AnnotateTimes(3);
  Say("exit handler\n");
}
static void SayInQuickHandler(void) { Say("quick exit handler\n"); }
static void ExitInHandler(void) { exit(kStatus + 1); }

__attribute__((destructor)) static void AnnotateInDestructor(void) {
  StartSeries();
  AnnotateTimes(3);
}

/* Runs after the agent's own destructor of the same kind: the thread needs a ring once more. */
static void AnnotateAtThreadEnd(void* unused) {
  (void)unused;
  AnnotateTimes(3);
}

static void* RaiseSignal(void* number) {
  raise((int)(intptr_t)number);
  return NULL;
}

static void* EndByExit(void* unused) {
  (void)unused;
  exit(kStatus);
}

static void* EndByPthreadExit(void* unused) {
  (void)unused;
  pthread_exit(NULL);
}

static void* LastThread(void* unused) {
  (void)unused;
  StartSeries();
  pthread_setspecific(key, &key);
  AnnotateTimes(50);
  return NULL;
}

static pthread_t Start(void* (*work)(void*), void* argument) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, work, argument) != 0) Fail("no thread");
  return thread;
}

static void WaitForThreads(void) {
  for (;;) {
    int ready = 0;
    for (uint64_t i = 0; i < atomic_load(&ledger->series_used); ++i) ready += atomic_load(&ledger->series[i].done) >= 32;
    if (ready >= kThreads) return;
    usleep(100);
  }
}

static void StopDaemon(pid_t daemon) {
  if (!stepscope_flush(10000) || kill(daemon, SIGSTOP) != 0) Fail("the daemon was not at work");
  AnnotateTimes(kMoreThanFits);
}

static int EndBy(const char* route) {
  static const struct {
    const char* name;
    int number;
  } kSignals[] = {{"sigkill", SIGKILL}, {"sigsegv", SIGSEGV}, {"sigterm", SIGTERM}, {"sigint", SIGINT}};
  for (size_t i = 0; i < sizeof(kSignals) / sizeof(kSignals[0]); ++i) {
    if (strcmp(route, kSignals[i].name) != 0) continue;
    signal(kSignals[i].number, SIG_DFL);  // a shell ignores SIGINT for what it starts in the background
    Start(RaiseSignal, (void*)(intptr_t)kSignals[i].number);
    for (;;) Annotate();
  }
  if (strcmp(route, "exit") == 0) exit(kStatus);
  if (strcmp(route, "_exit") == 0) _exit(kStatus);
  if (strcmp(route, "quick_exit") == 0) quick_exit(kStatus);
  if (strcmp(route, "abort") == 0) abort();
  if (strcmp(route, "exec") == 0) execl("/bin/echo", "echo", "executed", (char*)NULL);
  if (strcmp(route, "exit_in_atexit") == 0) {
    atexit(ExitInHandler);
    exit(kStatus);
  }
  if (strcmp(route, "exit_in_thread") == 0) {
    Start(EndByExit, NULL);
    for (;;) Annotate();
  }
  if (strcmp(route, "open_spans") == 0) {
    BeginWork();
    exit(kStatus);
  }
  return strcmp(route, "return") == 0 ? kStatus : 64;
}

int main(int count, char** arguments) {
  if (count < 2) return 64;
  OpenLedger();
  StartSeries();
  AnnotateTimes(100);
  printf("buffered");  // no newline: it is written at the end, or never
  atexit(SayInHandler);
  at_quick_exit(SayInQuickHandler);
  pthread_key_create(&key, AnnotateAtThreadEnd);
  if (getenv("STOPPED_PID") != NULL) StopDaemon(atoi(getenv("STOPPED_PID")));
  if (strcmp(arguments[1], "pthread_exit_in_chroot") == 0) {
    pthread_join(Start(EndByPthreadExit, NULL), NULL);  // libc loads what it needs for that
    if (mkdir("empty", 0755) != 0 || chroot("empty") != 0) Fail("chroot");
  }
  if (strncmp(arguments[1], "pthread_exit", 12) == 0) {
    Start(LastThread, NULL);
    pthread_setspecific(key, &key);
    pthread_exit(NULL);
  }
  if (strcmp(arguments[1], "main_exits_unseen_by_libc") == 0) {
    Start(LastThread, NULL);
    syscall(SYS_exit, 0);
  }
  for (int i = 0; i < kThreads; ++i) Start(AnnotateForever, (void*)kPauseUs);
  WaitForThreads();
  AnnotateTimes(100);
  return EndBy(arguments[1]);
}
