// SPDX-License-Identifier: Apache-2.0
// What the programs of these tests say about themselves: a file that all processes of a run map, in which every thread keeps its
// own books of the annotations it began and finished. It outlives any death, so the test can compare it with what is stored.
//
// A series is one thread's life in one process. Annotation n of series s is a span "work" with number s << 40 | n.
#ifndef STEPSCOPE_TESTS_LIFECYCLE_LEDGER_H_
#define STEPSCOPE_TESTS_LIFECYCLE_LEDGER_H_

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stepscope/stepscope.h"

enum { kMostSeries = 1 << 16, kSeriesShift = 40 };

struct series {
  _Atomic uint64_t begun;
  _Atomic uint64_t done;
};

struct ledger {
  _Atomic uint64_t series_used;
  _Atomic int64_t at_work;  /* processes the test cannot wait for otherwise */
  char state[232];          /* stepscope_state() of whoever noted it last */
  _Atomic uint64_t unheard; /* records dropped by processes that ended before a daemon took them on */
  struct series series[kMostSeries];
};

static struct ledger* ledger;
static __thread struct series* mine;
static __thread uint64_t next_number;
static volatile sig_atomic_t is_stray_copy; /* of a process that was in the middle of an annotation: keeps no books of it */

__attribute__((noreturn, unused)) static void Fail(const char* what) {
  perror(what);
  _exit(70);
}

/* The file is named by the test and already has its size. Nothing of it stays open. */
static void OpenLedger(void) {
  int fd = open(getenv("LIFECYCLE_LEDGER"), O_RDWR | O_CLOEXEC);
  if (fd < 0) Fail("ledger");
  ledger = mmap(NULL, sizeof(struct ledger), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (ledger == MAP_FAILED) Fail("mmap");
  close(fd);
}

static void StartSeries(void) {
  uint64_t id = atomic_fetch_add(&ledger->series_used, 1);
  if (id >= kMostSeries) Fail("the ledger has no series left");
  mine = &ledger->series[id];
  next_number = 0;
}

__attribute__((unused)) static void BeginWork(void) {
  struct series* books = mine;
  stepscope_name name = stepscope_intern("work", 4, STEPSCOPE_DOMAIN_USER);
  name.has_number = 1;
  name.number = (int64_t)((uint64_t)(books - ledger->series) << kSeriesShift | next_number);
  atomic_store(&books->begun, ++next_number);
  stepscope_begin(name);
}

__attribute__((unused)) static void EndWork(void) {
  stepscope_end();
  if (!is_stray_copy) atomic_store(&mine->done, next_number);
}

__attribute__((unused)) static void Annotate(void) {
  BeginWork();
  EndWork();
}

__attribute__((unused)) static void AnnotateTimes(long times) {
  for (long i = 0; i < times; ++i) Annotate();
}

__attribute__((unused)) static void NoteState(void) { snprintf(ledger->state, sizeof(ledger->state), "%s", stepscope_state()); }

/* Before a process ends: a daemon that is swamped has no room in its queue for a hello, and then nobody else has this count. */
__attribute__((unused)) static void NoteUnheard(void) {
  if (strncmp(stepscope_state(), "off", 3) == 0) atomic_fetch_add(&ledger->unheard, stepscope_lost());
}

/* A thread that annotates for as long as the process lives, pausing `argument` microseconds after every 16. */
__attribute__((unused)) static void* AnnotateForever(void* argument) {
  StartSeries();
  for (;;) {
    AnnotateTimes(16);
    if (argument != NULL) usleep((useconds_t)(uintptr_t)argument);
  }
  return NULL;
}

/* A thread that annotates for a tenth of a second, with pauses. */
__attribute__((unused)) static void* AnnotateForAWhile(void* unused) {
  (void)unused;
  StartSeries();
  for (int i = 0; i < 20; ++i) {
    AnnotateTimes(10);
    usleep(5000);
  }
  return NULL;
}

#endif
