/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause OR GPL-2.0-only
 * Who was on a CPU while a thread waited for it, as pure functions: sched.bpf.c keeps one history per CPU, of everybody's
 * turns, and walks it when a wait of a recorded thread ends; tests/unit/collector compares it with a brute-force memory.
 *
 *       buckets: what fell out of the turns, summed per occupant          turns: the last 32, exact
 *     ┌───────────┬───────────┬───────────┬───────────┐┌────┬──┬────────┬───┬──────────┬─────┐
 *     │ ~4 ms     │ ~4 ms     │ ~4 ms     │ open      ││    │  │        │   │          │ now │
 *     └───────────┴───────────┴───────────┴───────────┘└────┴──┴────────┴───┴──────────┴─────┘
 *             └──────────────────── a wait ──────────────────────────────────────┘
 *
 * Guarantee: the parts of a walk, `others` and `unknown` included, sum to the wait exactly. Within the turns each part is
 * exact; a bucket that the wait only touches gives its share pro rata; what is older than both is unknown. */
#ifndef STEPSCOPE_BPF_OCCUPANTS_H_
#define STEPSCOPE_BPF_OCCUPANTS_H_

#include "contract/sched_record.h"

#define STEPSCOPE_TURNS 32u /* powers of two */
#define STEPSCOPE_BUCKETS 16u
#define STEPSCOPE_BUCKET_SLOTS 4u
#define STEPSCOPE_BUCKET_NS 4000000u

/* tid of a turn whose owner is not known: a switch was not seen. */
#define STEPSCOPE_TID_UNSEEN 0xffffffffu

struct stepscope_turn {
  uint64_t on_ns; /* until the next turn's on_ns */
  uint32_t tid;   /* 0 = idle */
  uint32_t tgid;
};

/* Contiguous turns [start, end), at most one of them longer than STEPSCOPE_BUCKET_NS. */
struct stepscope_bucket {
  uint64_t start_ns;
  uint64_t end_ns; /* 0 = empty */
  uint64_t other_ns;
  struct stepscope_wait_part slots[STEPSCOPE_BUCKET_SLOTS]; /* ns 0 = free */
};

/* All zero = nothing seen yet. */
struct stepscope_cpu_history {
  uint64_t turn_count; /* ever; turn n is turns[n % STEPSCOPE_TURNS] */
  uint64_t bucket;     /* number of the open bucket */
  struct stepscope_turn turns[STEPSCOPE_TURNS];
  struct stepscope_bucket buckets[STEPSCOPE_BUCKETS];
};

#define STEPSCOPE_INLINE static inline __attribute__((always_inline))
/* In the kernel a global function: the verifier checks it once by itself, where inlined in a loop it would check each of its
 * paths in each round. Such a function takes pointers that may be null, as far as the verifier knows. */
#ifdef __bpf__
#define STEPSCOPE_VERIFIED_ALONE __attribute__((noinline))
#else
#define STEPSCOPE_VERIFIED_ALONE static inline
#endif

STEPSCOPE_INLINE void stepscope_fill_bucket(struct stepscope_cpu_history* h, const struct stepscope_turn* turn, uint64_t end_ns) {
  struct stepscope_bucket* bucket = &h->buckets[h->bucket & (STEPSCOPE_BUCKETS - 1)];
  if (bucket->end_ns != turn->on_ns || bucket->end_ns - bucket->start_ns >= STEPSCOPE_BUCKET_NS) {
    h->bucket++;
    bucket = &h->buckets[h->bucket & (STEPSCOPE_BUCKETS - 1)];
    __builtin_memset(bucket, 0, sizeof(*bucket));
    bucket->start_ns = turn->on_ns;
  }
  bucket->end_ns = end_ns;
  uint64_t ns = end_ns - turn->on_ns;
  for (uint32_t i = 0; i < STEPSCOPE_BUCKET_SLOTS; ++i) {
    struct stepscope_wait_part* slot = &bucket->slots[i];
    if (slot->ns != 0 && slot->tid != turn->tid) continue;
    slot->tid = turn->tid;
    slot->tgid = turn->tgid;
    slot->ns += ns;
    return;
  }
  bucket->other_ns += ns;
}

/* (tid, tgid) takes this history's CPU. */
STEPSCOPE_INLINE void stepscope_note_turn(struct stepscope_cpu_history* h, uint64_t now_ns, uint32_t tid, uint32_t tgid) {
  uint64_t count = h->turn_count;
  struct stepscope_turn* oldest = &h->turns[count & (STEPSCOPE_TURNS - 1)];
  if (count >= STEPSCOPE_TURNS) stepscope_fill_bucket(h, oldest, h->turns[(count + 1) & (STEPSCOPE_TURNS - 1)].on_ns);
  oldest->on_ns = now_ns;
  oldest->tid = tid;
  oldest->tgid = tgid;
  h->turn_count = count + 1;
}

/* Whether `tid`, which leaves the CPU now, is not the one that was seen taking it. */
STEPSCOPE_INLINE int stepscope_missed_switch(const struct stepscope_cpu_history* h, uint32_t tid) {
  return h->turn_count != 0 && h->turns[(h->turn_count - 1) & (STEPSCOPE_TURNS - 1)].tid != tid;
}

/* Puts the turn of (tid, tgid), which ends now and whose begin was not seen, into its place: it ran for `exec_ns`. Where that is
 * not known, nobody can say when it and the turn before it changed. */
STEPSCOPE_INLINE void stepscope_mend_turns(struct stepscope_cpu_history* h, uint64_t now_ns, uint32_t tid, uint32_t tgid,
                                           uint64_t exec_ns) {
  struct stepscope_turn* last = &h->turns[(h->turn_count - 1) & (STEPSCOPE_TURNS - 1)];
  if (tid == 0 || exec_ns == 0) {
    last->tid = STEPSCOPE_TID_UNSEEN;
    return;
  }
  uint64_t on_ns = exec_ns < now_ns - last->on_ns ? now_ns - exec_ns : last->on_ns;
  stepscope_note_turn(h, on_ns, tid, tgid);
}

STEPSCOPE_VERIFIED_ALONE int stepscope_add_part(struct stepscope_wait* wait, uint32_t tid, uint32_t tgid, uint64_t ns) {
  if (!wait) return 0;
  if (tid == STEPSCOPE_TID_UNSEEN) {
    wait->unknown_ns += ns;
    return 0;
  }
  for (uint32_t i = 0; i < STEPSCOPE_WAIT_PARTS; ++i) {
    struct stepscope_wait_part* part = &wait->parts[i];
    if (part->ns != 0 && part->tid != tid) continue;
    part->tid = tid;
    part->tgid = tgid;
    part->ns += ns;
    return 0;
  }
  wait->others_ns += ns;
  return 0;
}

/* ns * overlap / length without overflow below 2^40 ns (18 minutes), and never more than `ns`. */
STEPSCOPE_INLINE uint64_t stepscope_share(uint64_t ns, uint64_t overlap_ns, uint64_t length_ns) {
  uint32_t shift = length_ns >> 32 ? 16 : 0;
  uint64_t share = (ns >> shift) * overlap_ns / (length_ns >> shift);
  return share < ns ? share : ns;
}

/* The two below add what lies in [from, end) to the wait and return where that begins, the new end. */
STEPSCOPE_VERIFIED_ALONE uint64_t stepscope_add_turn(struct stepscope_wait* wait, const struct stepscope_turn* turn,
                                                     uint64_t from_ns, uint64_t end_ns) {
  if (!wait || !turn) return end_ns;
  uint64_t start_ns = turn->on_ns > from_ns ? turn->on_ns : from_ns;
  if (start_ns >= end_ns) return end_ns;
  stepscope_add_part(wait, turn->tid, turn->tgid, end_ns - start_ns);
  return start_ns;
}

STEPSCOPE_VERIFIED_ALONE uint64_t stepscope_add_bucket(struct stepscope_wait* wait, const struct stepscope_bucket* bucket,
                                                       uint64_t from_ns, uint64_t end_ns) {
  if (!wait || !bucket) return end_ns;
  uint64_t start_ns = bucket->start_ns > from_ns ? bucket->start_ns : from_ns;
  uint64_t stop_ns = bucket->end_ns < end_ns ? bucket->end_ns : end_ns;
  if (start_ns >= stop_ns) return end_ns;
  wait->unknown_ns += end_ns - stop_ns;
  uint64_t length_ns = bucket->end_ns - bucket->start_ns;
  uint64_t overlap_ns = stop_ns - start_ns;
  uint64_t left_ns = overlap_ns;
  for (uint32_t i = 0; i < STEPSCOPE_BUCKET_SLOTS; ++i) {
    const struct stepscope_wait_part* slot = &bucket->slots[i];
    uint64_t ns = overlap_ns == length_ns ? slot->ns : stepscope_share(slot->ns, overlap_ns, length_ns);
    if (ns > left_ns) ns = left_ns;
    if (ns == 0) continue;
    stepscope_add_part(wait, slot->tid, slot->tgid, ns);
    left_ns -= ns;
  }
  wait->others_ns += left_ns;
  return start_ns;
}

/* Adds who held the CPU in [from, to) to `wait`, newest first. */
STEPSCOPE_INLINE void stepscope_add_occupants(struct stepscope_wait* wait, const struct stepscope_cpu_history* h,
                                              uint64_t from_ns, uint64_t to_ns) {
  uint64_t end_ns = to_ns;
  for (uint32_t i = 1; i <= STEPSCOPE_TURNS; ++i) {
    if (end_ns <= from_ns || i > h->turn_count) break;
    end_ns = stepscope_add_turn(wait, &h->turns[(h->turn_count - i) & (STEPSCOPE_TURNS - 1)], from_ns, end_ns);
  }
  for (uint32_t i = 0; i < STEPSCOPE_BUCKETS; ++i) {
    if (end_ns <= from_ns) break;
    end_ns = stepscope_add_bucket(wait, &h->buckets[(h->bucket - i) & (STEPSCOPE_BUCKETS - 1)], from_ns, end_ns);
  }
  if (end_ns > from_ns) wait->unknown_ns += end_ns - from_ns;
}

#endif /* STEPSCOPE_BPF_OCCUPANTS_H_ */
