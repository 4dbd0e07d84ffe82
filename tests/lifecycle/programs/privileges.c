// SPDX-License-Identifier: Apache-2.0
// Gives up rights after the daemon knows it, and goes on annotating from old and new threads and from a child.
//
//   privileges WAY
#define _GNU_SOURCE
#include <grp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "ledger.h"

enum { kNobody = 65534, kPauseUs = 500 };

static int SetUser(void) {
  return setgroups(0, NULL) | setresgid(kNobody, kNobody, kNobody) | setresuid(kNobody, kNobody, kNobody);
}
static int SetGroup(void) { return setresgid(kNobody, kNobody, kNobody); }
static int NotDumpable(void) { return prctl(PR_SET_DUMPABLE, 0); }
static int ChangeRoot(void) { return mkdir("empty", 0755) | chroot("empty") | chdir("/"); }

static void* Work(void* unused) {
  (void)unused;
  StartSeries();
  for (int i = 0; i < 20; ++i) {
    AnnotateTimes(10);
    usleep(10000);
  }
  return NULL;
}

int main(int count, char** arguments) {
  static const struct {
    const char* name;
    int (*give_up)(void);
  } kWays[] = {{"user", SetUser}, {"group", SetGroup}, {"dumpable", NotDumpable}, {"root", ChangeRoot}};
  if (count != 2) return 64;
  OpenLedger();
  StartSeries();
  AnnotateTimes(100);
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, Work, NULL);
  stepscope_flush(5000);
  int result = -1;
  for (size_t i = 0; i < sizeof(kWays) / sizeof(kWays[0]); ++i) {
    if (strcmp(kWays[i].name, arguments[1]) == 0) result = kWays[i].give_up();
  }
  if (result != 0) Fail(arguments[1]);
  pthread_create(&threads[1], NULL, Work, NULL);
  pid_t child = strcmp(arguments[1], "root") == 0 ? -1 : fork(); /* a child in an empty root finds no socket */
  if (child == 0) {
    StartSeries();
    AnnotateTimes(10);
    _exit(0);
  }
  Work(NULL);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  int status = 0;
  if (child > 0) waitpid(child, &status, 0);
  printf("uid %u gid %u child %#x\n", getuid(), getgid(), (unsigned)status);
  NoteState();
  return 9;
}
