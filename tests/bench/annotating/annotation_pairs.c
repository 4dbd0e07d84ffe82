/* SPDX-License-Identifier: Apache-2.0
 * Begin/end pairs of the C API beside empty calls, in turns.
 *
 *   annotation_pairs BATCHES PAIRS
 *
 * Prints one line a batch: ns per empty pair, ns per recorded pair, ns per token pair. Between batches it waits until the
 * daemon has stored everything, so that no ring fills and the sender sleeps while it measures. Exits 1 when a record was
 * lost or none was kept. With BATCHES 1 it flushes nothing: what a tool that counts instructions wants. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "empty_calls.h"

enum { kFlushMs = 5000 };

__attribute__((noinline)) void EmptyPairs(stepscope_name name, long pairs) {
  for (long i = 0; i < pairs; ++i) {
    empty_begin(name);
    empty_end();
  }
}

__attribute__((noinline)) void RecordedPairs(stepscope_name name, long pairs) {
  for (long i = 0; i < pairs; ++i) {
    stepscope_begin(name);
    stepscope_end();
  }
}

__attribute__((noinline)) void TokenPairs(stepscope_name name, long pairs) {
  for (long i = 0; i < pairs; ++i) stepscope_token_end(stepscope_token_begin(name));
}

static double NsPerPair(void (*run)(stepscope_name, long), stepscope_name name, long pairs) {
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  run(name, pairs);
  clock_gettime(CLOCK_MONOTONIC, &end);
  return ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / (double)pairs;
}

int main(int argc, char** argv) {
  if (argc != 3) return fprintf(stderr, "usage: annotation_pairs BATCHES PAIRS\n"), 2;
  const long batches = atol(argv[1]), pairs = atol(argv[2]);
  const stepscope_name name = stepscope_intern("forward", strlen("forward"), STEPSCOPE_DOMAIN_USER);
  stepscope_begin(name); /* opens the session and writes the NAME record */
  stepscope_end();
  for (long batch = 0; batch < batches; ++batch) {
    if (batches > 1 && !stepscope_flush(kFlushMs)) return fprintf(stderr, "not stored: %s\n", stepscope_state()), 1;
    const double empty = NsPerPair(EmptyPairs, name, pairs);
    const double recorded = NsPerPair(RecordedPairs, name, pairs);
    const double token = NsPerPair(TokenPairs, name, pairs / 4);
    printf("%.3f %.3f %.3f\n", empty, recorded, token);
  }
  if (stepscope_lost() != 0) return fprintf(stderr, "%llu records lost\n", (unsigned long long)stepscope_lost()), 1;
  return 0;
}
