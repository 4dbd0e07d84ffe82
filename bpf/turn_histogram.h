/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause OR GPL-2.0-only
 * Turns and waits counted by length, per class and CPU: what mode "histogram" keeps instead of records. Used by sched.bpf.c. */
#ifndef STEPSCOPE_BPF_TURN_HISTOGRAM_H_
#define STEPSCOPE_BPF_TURN_HISTOGRAM_H_

#include "bpf/kernel_types.h"

/* Below the types, as they use them. */
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "bpf/slice_logic.h"

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1); /* classes, in that mode */
  __type(key, __u32);
  __type(value, struct stepscope_sched_histogram);
} histograms SEC(".maps");

static __always_inline void count_in(uint64_t* buckets, __u64 ns) {
  __u64 us = ns / 1000;
  __u32 bucket = 0;
  for (__u32 shift = 16; shift != 0; shift >>= 1) {
    if (us >> shift == 0) continue;
    us >>= shift;
    bucket += shift;
  }
  bucket += us != 0;
  if (bucket > STEPSCOPE_HISTOGRAM_BUCKETS - 1) bucket = STEPSCOPE_HISTOGRAM_BUCKETS - 1;
  buckets[bucket & (STEPSCOPE_HISTOGRAM_BUCKETS - 1)]++;
}

static __always_inline struct stepscope_sched_histogram* histogram_of(__u32 klass) {
  return bpf_map_lookup_elem(&histograms, &klass);
}

static __always_inline void count_turn(struct stepscope_thread_state* state, __u32 klass,
                                       const struct stepscope_task_counters* c) {
  struct stepscope_sched_histogram* histogram = histogram_of(klass);
  if (!histogram) return;
  __u64 ns = c->now_ns - state->on_ns;
  count_in(histogram->turns, ns);
  histogram->run_ns += ns;
}

static __always_inline void count_wait(const struct stepscope_thread_state* state, __u32 klass) {
  struct stepscope_sched_histogram* histogram = histogram_of(klass);
  if (!histogram || state->turn_waker_kind == STEPSCOPE_WAKER_UNKNOWN) return;
  count_in(histogram->waits, state->wait_ns);
  histogram->wait_ns += state->wait_ns;
}

#endif /* STEPSCOPE_BPF_TURN_HISTOGRAM_H_ */
