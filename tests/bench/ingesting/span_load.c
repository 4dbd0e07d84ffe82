/* SPDX-License-Identifier: Apache-2.0
 * A paced load of annotations: what a daemon takes without loss is found by raising the rate.
 *
 *   span_load THREADS PAIRS_PER_SECOND SECONDS [FLUSH_MS]
 *
 * Each thread writes its share of nested spans every 10 ms (three numbered ones inside one of a layer), as a training loop
 * does; times are the real ones of the calls. The rate rises in the first second and stays for SECONDS after it. Prints "spans
 * written, records lost, CPU ns of the writers" at the end. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stepscope/stepscope.h"

enum { kTickNs = 10 * 1000 * 1000, kTicksPerSecond = 100, kSpansPerGroup = 4, kNames = 24, kMostThreads = 200 };

typedef struct {
  pthread_t thread;
  long groups_per_tick;
  long ticks;
  long long groups;
  long long cpu_ns;
} Writer;

static stepscope_name names[kNames];
static struct timespec start;

static long long NsOf(struct timespec t) { return (long long)t.tv_sec * 1000000000 + t.tv_nsec; }

static void WriteGroup(long number) {
  stepscope_begin(names[number % kNames]);
  for (int inner = 1; inner < kSpansPerGroup; ++inner) {
    stepscope_name name = names[(number + inner) % kNames];
    name.has_number = 1;
    name.number = number;
    stepscope_begin(name);
    stepscope_end();
  }
  stepscope_end();
}

static void* Write(void* argument) {
  Writer* writer = argument;
  struct timespec due = start;
  long number = 0;
  for (long tick = 0; tick < writer->ticks; ++tick) {
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
    const long ramp = tick < kTicksPerSecond ? tick + 1 : kTicksPerSecond;
    for (long left = writer->groups_per_tick * ramp / kTicksPerSecond; left > 0; --left) WriteGroup(number++);
    due.tv_nsec += kTickNs;
    if (due.tv_nsec >= 1000000000) {
      due.tv_nsec -= 1000000000;
      ++due.tv_sec;
    }
  }
  struct timespec cpu;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  writer->cpu_ns = NsOf(cpu);
  writer->groups = number;
  return NULL;
}

int main(int argc, char** argv) {
  if (argc < 4) return fprintf(stderr, "usage: span_load THREADS PAIRS_PER_SECOND SECONDS [FLUSH_MS]\n"), 2;
  const long threads = atol(argv[1]), rate = atol(argv[2]), seconds = atol(argv[3]);
  const int flush_ms = argc > 4 ? atoi(argv[4]) : 30000;
  static Writer writers[kMostThreads];
  if (threads < 1 || threads > kMostThreads) return fprintf(stderr, "1 to %d threads\n", kMostThreads), 2;
  for (int i = 0; i < kNames; ++i) {
    char text[32];
    snprintf(text, sizeof(text), "layer %c", 'a' + i);
    names[i] = stepscope_intern(text, strlen(text), STEPSCOPE_DOMAIN_USER);
  }
  clock_gettime(CLOCK_MONOTONIC, &start);
  ++start.tv_sec; /* all threads are there by then */
  long long spans = 0, cpu_ns = 0;
  for (long i = 0; i < threads; ++i) {
    writers[i].groups_per_tick = rate / threads / kTicksPerSecond / kSpansPerGroup;
    writers[i].ticks = (seconds + 1) * kTicksPerSecond;
    if (pthread_create(&writers[i].thread, NULL, Write, &writers[i]) != 0) return perror("pthread_create"), 1;
  }
  for (long i = 0; i < threads; ++i) {
    pthread_join(writers[i].thread, NULL);
    spans += writers[i].groups * kSpansPerGroup;
    cpu_ns += writers[i].cpu_ns;
  }
  if (!stepscope_flush(flush_ms)) return fprintf(stderr, "not all stored after %d ms: %s\n", flush_ms, stepscope_state()), 1;
  printf("%lld %llu %lld\n", spans, (unsigned long long)stepscope_lost(), cpu_ns);
  return 0;
}
