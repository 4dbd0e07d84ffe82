// SPDX-License-Identifier: Apache-2.0
// Becomes a daemon in the old way: two forks, a session of its own, no descriptor left open. All three processes annotate.
#define _GNU_SOURCE
#include <sys/stat.h>

#include "ledger.h"

int main(void) {
  OpenLedger();
  StartSeries();
  AnnotateTimes(10);
  atomic_fetch_add(&ledger->at_work, 1);
  pid_t child = fork();
  if (child < 0) Fail("fork");
  if (child > 0) {
    puts("started");
    return 0;
  }
  setsid();
  StartSeries();
  AnnotateTimes(10);
  if (fork() != 0) _exit(0);
  StartSeries();
  Annotate();
  umask(0);
  int log = open("daemon.log", O_WRONLY | O_CREAT, 0644);
  if (log >= 0 && write(log, "at work\n", 8) == 8) close(log);
  for (int fd = 0; fd < 1024; ++fd) close(fd);
  for (int i = 0; i < 30; ++i) {
    AnnotateTimes(10);
    usleep(10000);
  }
  atomic_fetch_sub(&ledger->at_work, 1);
  return 0;
}
