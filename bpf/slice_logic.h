/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause OR GPL-2.0-only
 * The state machine of one thread's turns, as pure functions: what a wake, a switch-in and a switch-out do to a thread's
 * state and what record comes out. sched.bpf.c feeds it from the kernel, tests/unit/collector from a fake one.
 *
 *            wake(t)                switch_in(t)                  switch_out(t)
 *   blocked ─────────► woken ───────────────────► on CPU ───────────────────────► blocked | runnable | stopped | dead
 *                                                                  └ runnable: nothing to wake, wait begins at off
 *
 * Traps the code below stands on (all seen on real kernels):
 *   - A wake may be seen BEFORE the switch-out of the sleep it ends (the waker runs on another CPU). So a blocking
 *     switch-out leaves the pending wake alone, and only the switch-in clears it.
 *   - The `preempt` argument is true for kernel preemption only; losing the CPU at a tick reads preempt = false, state 0.
 *   - A switch-in can stay unseen. The next switch-out then rebuilds it from the kernel's books and says HEALED.
 *   - A record may be lost. Baselines of the deltas move only when a record is written, so sums stay right. */
#ifndef STEPSCOPE_BPF_SLICE_LOGIC_H_
#define STEPSCOPE_BPF_SLICE_LOGIC_H_

#include "contract/sched_record.h"

#define STEPSCOPE_TASK_STOPPED_BIT 0x4u
#define STEPSCOPE_TASK_TRACED_BIT 0x8u
#define STEPSCOPE_TASK_DEAD_BIT 0x80u

/* Kept per thread between events; all zero = nothing known. */
struct stepscope_thread_state {
  uint32_t owner;         /* who initialised it: (attachment << 8) | class; another value = start over */
  uint32_t announced_tid; /* tid the last announcement was written under; 0 = none */
  uint64_t on_ns;         /* 0 = not seen on a CPU */
  uint64_t off_ns;        /* last switch-out; 0 = none seen */
  uint64_t waking_ns;     /* pending wake; 0 = none */
  uint64_t wait_ns;       /* of the turn that runs now */
  uint64_t clock_on_ns;   /* run-queue clock at switch-in; 0 = unknown */
  uint64_t exec_ns;       /* baselines: counter values the last written record accounts for */
  uint64_t run_delay_ns;
  uint64_t min_faults;
  uint64_t maj_faults;
  uint64_t switches_before; /* switches before the first recorded turn */
  uint64_t told_ns;         /* pieces of a wait before this are told or carried */
  uint64_t carried_ns;      /* short pieces just before told_ns, not told */
  uint32_t waking_tid;      /* who did the pending wake */
  uint32_t turn_waker;      /* who woke the turn that runs now */
  uint8_t waking_kind;
  uint8_t turn_waker_kind;
  uint8_t end_state; /* stepscope_slice_state of the last switch-out */
  uint8_t has_baseline;
  uint8_t has_switches_before;
  uint8_t is_new;    /* no turn yet */
  uint8_t is_healed; /* the turn that runs now was put in place by stepscope_heal */
  uint8_t pad;
};

/* The kernel's counters of a thread, read at a switch. */
struct stepscope_task_counters {
  uint64_t now_ns;
  uint64_t switches;     /* nvcsw + nivcsw */
  uint64_t exec_ns;      /* se.sum_exec_runtime */
  uint64_t turn_exec_ns; /* se.sum_exec_runtime - se.prev_sum_exec_runtime: this turn alone (CFS) */
  uint64_t run_delay_ns;
  uint64_t min_faults;
  uint64_t maj_faults;
  uint64_t clock_ns; /* rq->clock; 0 = not readable */
  uint64_t arg0;
  uint32_t tid;
  uint32_t state; /* prev_state */
  uint16_t cpu;
  int16_t syscall;
  uint8_t is_preempted;
  uint8_t is_in_iowait;
  uint8_t is_throttled;
};

static inline __attribute__((always_inline)) uint64_t stepscope_max(uint64_t a, uint64_t b) { return a > b ? a : b; }
static inline __attribute__((always_inline)) uint64_t stepscope_min(uint64_t a, uint64_t b) { return a < b ? a : b; }
/* a - b, 0 where that would be negative. */
static inline __attribute__((always_inline)) uint64_t stepscope_excess(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

/* Whether a thread whose turn ended so stayed runnable: its wait begins at once and no wake belongs to it. */
static inline __attribute__((always_inline)) int stepscope_is_runnable(uint32_t state) {
  return state == STEPSCOPE_STATE_RUNNABLE || state == STEPSCOPE_STATE_PREEMPTED || state == STEPSCOPE_STATE_THROTTLED;
}

static inline __attribute__((always_inline)) uint32_t stepscope_end_state(const struct stepscope_task_counters* c) {
  if (c->is_preempted || c->state == 0) {
    if (c->is_throttled) return STEPSCOPE_STATE_THROTTLED; /* from 6.18 the quota's end preempts inside the kernel */
    return c->is_preempted ? STEPSCOPE_STATE_PREEMPTED : STEPSCOPE_STATE_RUNNABLE;
  }
  if (c->state & STEPSCOPE_TASK_DEAD_BIT) return STEPSCOPE_STATE_DEAD;
  if (c->state & STEPSCOPE_TASK_STOPPED_BIT) return STEPSCOPE_STATE_STOPPED;
  if (c->state & STEPSCOPE_TASK_TRACED_BIT) return STEPSCOPE_STATE_TRACED;
  return c->is_in_iowait ? STEPSCOPE_STATE_BLOCKED_IO : STEPSCOPE_STATE_BLOCKED;
}

/* `waker` is 0 unless `kind` is TASK or LOCAL_NET. */
static inline __attribute__((always_inline)) void stepscope_on_wake(struct stepscope_thread_state* t, uint64_t now_ns,
                                                                    uint32_t waker, uint32_t kind) {
  t->waking_tid = waker;
  t->waking_kind = (uint8_t)kind;
  t->waking_ns = now_ns;
}

static inline __attribute__((always_inline)) void stepscope_set_baseline(struct stepscope_thread_state* t,
                                                                         const struct stepscope_task_counters* c) {
  t->exec_ns = c->exec_ns;
  t->run_delay_ns = c->run_delay_ns;
  t->min_faults = c->min_faults;
  t->maj_faults = c->maj_faults;
  t->has_baseline = 1;
}

/* Since when a thread that is not on a CPU has been waiting for one; 0 = it is not, or that is not known. */
static inline __attribute__((always_inline)) uint64_t stepscope_wait_start(const struct stepscope_thread_state* t) {
  if (t->on_ns) return 0;
  if (t->off_ns && stepscope_is_runnable(t->end_state)) return t->off_ns;
  return t->waking_ns ? stepscope_max(t->off_ns, t->waking_ns) : 0;
}

/* A stretch of a wait in one run queue, [from, end), and the short ones [start, from) in front of it that nobody told. */
struct stepscope_wait_piece {
  uint64_t start_ns;
  uint64_t from_ns;
  uint64_t end_ns;
};

/* Ends the piece that runs, at a migration or (`is_over`) with the wait. True when it is to be told: a piece of its own from
 * STEPSCOPE_WAIT_MIN_NS on; at the end all that is left, if the whole wait was that long. */
static inline __attribute__((always_inline)) int stepscope_end_piece(struct stepscope_thread_state* t, uint64_t wait_start_ns,
                                                                     uint64_t now_ns, int is_over,
                                                                     struct stepscope_wait_piece* piece) {
  if (t->told_ns < wait_start_ns) {
    t->told_ns = wait_start_ns;
    t->carried_ns = 0;
  }
  uint64_t length_ns = stepscope_excess(now_ns, t->told_ns);
  uint64_t decisive_ns = is_over ? stepscope_excess(now_ns, wait_start_ns) : length_ns;
  piece->start_ns = t->told_ns - t->carried_ns;
  piece->from_ns = t->told_ns;
  piece->end_ns = now_ns;
  int is_told = decisive_ns >= STEPSCOPE_WAIT_MIN_NS && piece->start_ns < now_ns;
  t->carried_ns = is_told ? 0 : t->carried_ns + length_ns;
  t->told_ns = now_ns;
  return is_told;
}

/* Of `c` only now, clock and the four baseline counters are read. run_delay does not yet hold the wait that ends here. */
static inline __attribute__((always_inline)) void stepscope_on_switch_in(struct stepscope_thread_state* t,
                                                                         const struct stepscope_task_counters* c) {
  t->turn_waker = 0;
  t->turn_waker_kind = STEPSCOPE_WAKER_UNKNOWN;
  t->wait_ns = 0;
  if (t->off_ns && stepscope_is_runnable(t->end_state)) {
    t->turn_waker_kind = STEPSCOPE_WAKER_NONE;
    t->wait_ns = stepscope_excess(c->now_ns, t->off_ns);
  } else if (t->waking_ns) {
    t->turn_waker = t->waking_tid;
    t->turn_waker_kind = t->waking_kind;
    t->wait_ns = stepscope_excess(c->now_ns, stepscope_max(t->off_ns, t->waking_ns));
  }
  t->waking_ns = 0;
  t->on_ns = c->now_ns;
  t->clock_on_ns = c->clock_ns;
  if (!t->has_baseline) stepscope_set_baseline(t, c);
}

/* At a switch-out of a thread that was not seen on a CPU: puts on, wait and waker of its turn in place. exec may exceed the turn
 * by some us after an idle wake-up, so the turn is kept from reaching into the previous one. */
static inline __attribute__((always_inline)) void stepscope_heal(struct stepscope_thread_state* t,
                                                                 const struct stepscope_task_counters* c) {
  uint64_t turn_exec_ns = c->turn_exec_ns;
  if (t->has_baseline) turn_exec_ns = stepscope_min(turn_exec_ns, stepscope_excess(c->exec_ns, t->exec_ns));
  t->on_ns = stepscope_max(stepscope_excess(c->now_ns, turn_exec_ns), t->off_ns);
  t->wait_ns = 0;
  if (t->has_baseline && t->off_ns) {
    t->wait_ns = stepscope_min(stepscope_excess(c->run_delay_ns, t->run_delay_ns), t->on_ns - t->off_ns);
  }
  t->turn_waker = 0;
  t->turn_waker_kind = STEPSCOPE_WAKER_UNKNOWN;
  t->clock_on_ns = 0;
  t->is_healed = 1;
  if (t->waking_ns < t->on_ns) t->waking_ns = 0;
  if (t->has_baseline) return;
  stepscope_set_baseline(t, c);
  t->exec_ns = c->exec_ns - turn_exec_ns;
}

/* Moves *baseline towards `now` by at most `limit` and returns the step; what is left sets CARRY. */
static inline __attribute__((always_inline)) uint64_t stepscope_take_delta(uint64_t* baseline, uint64_t now, uint64_t limit,
                                                                           uint32_t* flags) {
  uint64_t delta = stepscope_excess(now, *baseline);
  if (delta > limit) {
    *flags |= STEPSCOPE_SLICE_CARRY;
    delta = limit;
  }
  *baseline += delta;
  return delta;
}

/* exec of this record beyond its turn's length, clamped to 32 bits; the baseline moves by what is reported. */
static inline __attribute__((always_inline)) int32_t stepscope_take_exec(struct stepscope_thread_state* t, uint64_t exec_ns,
                                                                         uint64_t turn_ns, uint32_t* flags) {
  int64_t over = (int64_t)(exec_ns - t->exec_ns) - (int64_t)turn_ns;
  if (over > INT32_MAX || over < INT32_MIN) {
    *flags |= STEPSCOPE_SLICE_CARRY;
    over = over > 0 ? INT32_MAX : INT32_MIN;
  }
  t->exec_ns += (uint64_t)((int64_t)turn_ns + over);
  return (int32_t)over;
}

static inline __attribute__((always_inline)) void stepscope_fill_slice(struct stepscope_slice* out,
                                                                       struct stepscope_thread_state* t,
                                                                       const struct stepscope_task_counters* c, uint32_t state,
                                                                       uint32_t flags) {
  uint64_t stolen_ns = 0;
  if (t->clock_on_ns) stolen_ns = stepscope_excess(c->clock_ns, t->clock_on_ns + c->turn_exec_ns);
  out->type = STEPSCOPE_SLICE;
  out->cpu = c->cpu;
  out->seq = (uint32_t)c->switches;
  out->on_ns = t->on_ns;
  out->off_ns = c->now_ns;
  out->wait_ns = t->wait_ns;
  out->arg0 = c->arg0;
  out->syscall = c->syscall;
  out->stolen_ns = (uint32_t)stepscope_min(stolen_ns, UINT32_MAX);
  out->exec_over_ns = stepscope_take_exec(t, c->exec_ns, c->now_ns - t->on_ns, &flags);
  out->rq_wait_ns = (uint32_t)stepscope_take_delta(&t->run_delay_ns, c->run_delay_ns, UINT32_MAX, &flags);
  out->min_faults = (uint16_t)stepscope_take_delta(&t->min_faults, c->min_faults, UINT16_MAX, &flags);
  out->maj_faults = (uint8_t)stepscope_take_delta(&t->maj_faults, c->maj_faults, UINT8_MAX, &flags);
  out->tid = c->tid;
  out->state = state;
  out->flags = flags;
  out->waker = t->turn_waker;
  out->waker_kind = t->turn_waker_kind;
  out->reserved = 0;
}

/* Of a turn that was seen to begin, or was healed. `out` is null when the ring had no room: the thread's state goes on, its
 * deltas wait for the next record. */
static inline __attribute__((always_inline)) void stepscope_on_switch_out(struct stepscope_thread_state* t,
                                                                          const struct stepscope_task_counters* c,
                                                                          struct stepscope_slice* out) {
  uint32_t state = stepscope_end_state(c);
  uint32_t flags = t->is_healed ? STEPSCOPE_SLICE_HEALED : 0;
  if (t->is_new) flags |= STEPSCOPE_SLICE_FIRST;
  if (!t->has_switches_before) {
    t->has_switches_before = 1;
    t->switches_before = c->switches - 1;
  }
  if (out) stepscope_fill_slice(out, t, c, state, flags);
  t->is_new = 0;
  t->is_healed = 0;
  t->on_ns = 0;
  t->off_ns = c->now_ns;
  t->end_state = (uint8_t)state;
  if (stepscope_is_runnable(state)) t->waking_ns = 0;
}

#endif /* STEPSCOPE_BPF_SLICE_LOGIC_H_ */
