// SPDX-License-Identifier: Apache-2.0
// Processes that annotate from several threads until somebody kills them, and tell through a shared file what they committed.
//
//   annotating_tree FILE PROCESSES THREADS PAUSE_US churn|steady
//
// FILE is an array of 64-bit words: [0] slots given out, [1] long-lived processes so far, [8 + slot] spans committed there. A
// slot belongs to one thread, whose spans are called "s<slot>" and are numbered from 0: a number counts as committed once the
// call that ended its span has returned. "churn" replaces threads all the time (rings are acquired and retired) and forks brief
// children that annotate and _exit; "steady" does neither.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stepscope/stepscope.h"

enum { kFirstSlot = 8, kWords = 1 << 17, kMaxThreads = 64, kSpansOfABriefThread = 24, kSpansOfABriefChild = 3 };
static _Atomic uint64_t* words;
static useconds_t pause_us;
static int churn;

// A slot for the calling thread, and its spans' name.
static uint64_t TakeSlot(stepscope_name* name) {
  const uint64_t slot = atomic_fetch_add(&words[0], 1);
  if (slot + kFirstSlot >= kWords) _exit(3);
  char text[32];
  const int bytes = snprintf(text, sizeof(text), "s%llu", (unsigned long long)slot);
  *name = stepscope_intern(text, (size_t)bytes, STEPSCOPE_DOMAIN_USER);
  return slot;
}

static void Annotate(uint64_t slot, stepscope_name name, int64_t number) {
  name.has_number = 1;
  name.number = number;
  stepscope_begin(name);
  stepscope_end();
  atomic_store_explicit(&words[kFirstSlot + slot], (uint64_t)number + 1, memory_order_release);
}

static void* AnnotateForever(void* unused) {
  (void)unused;
  stepscope_name name;
  const uint64_t slot = TakeSlot(&name);
  for (int64_t n = 0; !churn || n < kSpansOfABriefThread; ++n) {
    Annotate(slot, name, n);
    usleep(pause_us);
  }
  return NULL;
}

static void ForkABriefChild(void) {
  const pid_t child = fork();
  if (child == 0) {
    stepscope_name name;
    const uint64_t slot = TakeSlot(&name);
    for (int64_t n = 0; n < kSpansOfABriefChild; ++n) Annotate(slot, name, n);
    _exit(0);
  }
  if (child > 0) waitpid(child, NULL, 0);
}

// A long-lived process.
static void Live(long threads) {
  atomic_fetch_add(&words[1], 1);
  pthread_t running[kMaxThreads];
  for (long i = 0; i < threads; ++i) pthread_create(&running[i], NULL, AnnotateForever, NULL);
  stepscope_name name;
  const uint64_t slot = TakeSlot(&name);
  for (int64_t n = 0;; ++n) {
    Annotate(slot, name, n);
    usleep(pause_us);
    if (!churn) continue;
    if (n % 4 == 0) ForkABriefChild();
    pthread_t* oldest = &running[n % threads];
    if (pthread_tryjoin_np(*oldest, NULL) == 0) pthread_create(oldest, NULL, AnnotateForever, NULL);
  }
}

int main(int count, char** arguments) {
  if (count != 6) return 2;
  const int fd = open(arguments[1], O_RDWR);
  words = mmap(NULL, kWords * sizeof(*words), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (words == MAP_FAILED) return 1;
  const long processes = atol(arguments[2]), threads = atol(arguments[3]);
  if (threads < 1 || threads > kMaxThreads) return 2;
  pause_us = (useconds_t)atol(arguments[4]);
  churn = strcmp(arguments[5], "churn") == 0;
  stepscope_name name;
  const uint64_t slot = TakeSlot(&name);
  Annotate(slot, name, 0);
  for (long i = 1; i < processes; ++i) {
    if (fork() == 0) break;
  }
  Live(threads);
}
