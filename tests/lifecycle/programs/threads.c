// SPDX-License-Identifier: Apache-2.0
// Threads that annotate a little and end while others begin.
//
//   threads ALL AT_ONCE ANNOTATIONS
#include <pthread.h>
#include <semaphore.h>

#include "ledger.h"

static long annotations;
static sem_t places;
static _Atomic long alive;

static void* LiveShortly(void* unused) {
  (void)unused;
  StartSeries();
  AnnotateTimes(annotations);
  sem_post(&places);
  atomic_fetch_sub(&alive, 1);
  return NULL;
}

int main(int count, char** arguments) {
  if (count != 4) return 64;
  OpenLedger();
  StartSeries();
  annotations = atol(arguments[3]);
  sem_init(&places, 0, (unsigned)atol(arguments[2]));
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  for (long i = 0; i < atol(arguments[1]); ++i) {
    while (sem_wait(&places) != 0) continue;
    pthread_t thread;
    atomic_fetch_add(&alive, 1);
    if (pthread_create(&thread, &detached, LiveShortly, NULL) != 0) Fail("no thread");
    if (i % 16 == 0) Annotate();
  }
  while (atomic_load(&alive) != 0) usleep(1000);
  printf("%s threads\n", arguments[1]);
  return 0;
}
