// SPDX-License-Identifier: Apache-2.0
// Replaces itself while its threads annotate, again and again; the call comes from one of the threads.
//
//   exec_race ROUNDS
#include <pthread.h>

#include "ledger.h"

enum { kThreads = 3, kPauseUs = 100 };

static char* self;
static long rounds;

static void* Replace(void* unused) {
  (void)unused;
  StartSeries();
  AnnotateTimes(5 + rounds % 7);
  char left[24];
  snprintf(left, sizeof(left), "%ld", rounds - 1);
  execl(self, self, left, (char*)NULL);
  Fail("exec");
}

int main(int count, char** arguments) {
  if (count != 2) return 64;
  OpenLedger();
  StartSeries();
  self = arguments[0];
  rounds = atol(arguments[1]);
  AnnotateTimes(5);
  if (rounds == 0) {
    puts("the last image");
    return 7;
  }
  for (int i = 0; i <= kThreads; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, i < kThreads ? AnnotateForever : Replace, (void*)kPauseUs) != 0) Fail("no thread");
  }
  for (;;) {
    AnnotateTimes(16);
    usleep(kPauseUs);
  }
}
