// SPDX-License-Identifier: Apache-2.0
// The records bpf/sched.bpf.c writes into its ring buffers and daemon/collector reads. C, shared with the BPF side.
//
// Vocabulary
//   turn    one stay of a thread on a CPU, [on, off).
//   wait    runnable but not running before the turn: [max(previous off, waking), on).
//   seq     voluntary + involuntary switches of the thread, this switch-out included: +1 per turn, so a gap in it is a loss.
//   class   one byte per process, class_of[tgid]: 0 out, 1 us (never recorded), 2..255 the job it belongs to.
//   delta   growth of a kernel counter since the last record of that thread that reached the ring. Deltas telescope: a lost
//           record's share is in the next one, so sums stay right across losses.
//
//     waking      on                         off           waking   on
//   ────┬──────────┬──────────────────────────┬───────────────┬──────┬──────── thread
//       │  wait    │   turn: exec, faults,    │   blocked     │ wait │
//       └──────────┘   stolen inside it       └───────────────┘      └ …
//                                             ▲ the record is written here, at switch-out
//
// Every record begins with its type. A thread's STEPSCOPE_TASK_* announcement precedes its first slice; its
// STEPSCOPE_TASK_EXIT follows its last one. Order holds within one ring. Integers are in host byte order (the ring never
// leaves the node); both ends are built together, so there is no version field: sizes are asserted instead.
// Worked bytes: docs/formats/sched_record.md.
#ifndef STEPSCOPE_CONTRACT_SCHED_RECORD_H_
#define STEPSCOPE_CONTRACT_SCHED_RECORD_H_

#include <stdint.h>

#define STEPSCOPE_CLASS_OUT 0u
#define STEPSCOPE_CLASS_US 1u
#define STEPSCOPE_CLASS_FIRST_JOB 2u
#define STEPSCOPE_CLASS_COUNT 256u
#define STEPSCOPE_MAX_TGID 4194304u /* PID_MAX_LIMIT of 64-bit kernels; thread ids fit 22 bits */

enum stepscope_sched_record_type {
  STEPSCOPE_SLICE = 1,
  STEPSCOPE_TASK_NEW = 2, /* a clone, or the first sight of a thread older than the attachment */
  STEPSCOPE_TASK_RENAME = 3,
  STEPSCOPE_TASK_EXEC = 4,
  STEPSCOPE_TASK_EXIT = 5,
  STEPSCOPE_WAIT = 6
};

/* How a turn ended; the values of sched_slice.state (trace/schema.h SliceState). */
enum stepscope_slice_state {
  STEPSCOPE_STATE_BLOCKED = 0,
  STEPSCOPE_STATE_BLOCKED_IO = 1,
  STEPSCOPE_STATE_RUNNABLE = 2,  /* lost the CPU at a tick or by sched_yield */
  STEPSCOPE_STATE_PREEMPTED = 3, /* lost it inside the kernel */
  STEPSCOPE_STATE_STOPPED = 4,
  STEPSCOPE_STATE_TRACED = 5,
  STEPSCOPE_STATE_DEAD = 6,
  STEPSCOPE_STATE_THROTTLED = 7
};

/* Who ended the sleep before a turn; the values of sched_slice.waker_kind (trace/schema.h WakerKind). */
enum stepscope_waker_kind {
  STEPSCOPE_WAKER_UNKNOWN = 0, /* wake not seen */
  STEPSCOPE_WAKER_TASK = 1,    /* this kind and LOCAL_NET have a waker tid: in an interrupt the current task is a bystander */
  STEPSCOPE_WAKER_TIMER = 2,
  STEPSCOPE_WAKER_DISK = 3,
  STEPSCOPE_WAKER_NET = 4,       /* a packet from outside */
  STEPSCOPE_WAKER_LOCAL_NET = 5, /* a packet a task of this machine sent: the sender */
  STEPSCOPE_WAKER_IRQ = 6,       /* any other interrupt */
  STEPSCOPE_WAKER_NONE = 7       /* it was runnable all along: nothing had to wake it */
};

enum stepscope_slice_flag {
  STEPSCOPE_SLICE_HEALED = 1, /* the switch-in was not seen: on = off - exec, wait from run_delay, waker unknown */
  STEPSCOPE_SLICE_FIRST = 2,  /* first turn of a new thread */
  STEPSCOPE_SLICE_CARRY = 4   /* a delta did not fit its field; the rest follows in the next record */
};

struct stepscope_slice {
  uint8_t type;       /* STEPSCOPE_SLICE */
  uint8_t maj_faults; /* delta; saturates, rest carried */
  uint16_t cpu;
  uint32_t seq;
  uint64_t on_ns; /* CLOCK_MONOTONIC, as all times here */
  uint64_t off_ns;
  uint64_t wait_ns;
  uint64_t arg0;       /* first argument of the system call in `syscall`, of poll and ppoll the first fd; 0 if none */
  uint32_t tid : 22;   /* host ids */
  uint32_t state : 4;  /* stepscope_slice_state */
  uint32_t flags : 6;  /* stepscope_slice_flag */
  uint32_t waker : 22; /* host tid; 0 unless waker_kind is TASK or LOCAL_NET */
  uint32_t waker_kind : 4;
  uint32_t reserved : 6;
  int32_t exec_over_ns; /* delta of se.sum_exec_runtime minus (off - on); see stepscope_slice_exec_ns */
  uint32_t rq_wait_ns;  /* delta of sched_info.run_delay; saturates, rest carried */
  uint32_t stolen_ns;   /* rq clock over the turn minus exec of the turn; saturates */
  int16_t syscall;      /* nr at switch-out; -1 = fault or user mode */
  uint16_t min_faults;  /* delta; saturates, rest carried */
};

/* TASK_NEW, TASK_RENAME, TASK_EXEC. */
struct stepscope_task_event {
  uint8_t type;
  uint8_t klass; /* of the process when written: which job */
  uint16_t cpu;
  uint32_t tid; /* host */
  uint64_t time_ns;
  uint64_t process_start_ns; /* group leader's start_boottime; / (10^9 / USER_HZ) is field 22 of /proc/PID/stat */
  uint32_t tgid;             /* host */
  uint32_t inner_tid;        /* in the thread's innermost pid namespace, as gettid() says */
  uint32_t inner_tgid;
  uint32_t pid_ns;      /* inode number of that namespace */
  char comm[16];        /* name after the event, zero-terminated */
  uint32_t old_tid;     /* EXEC: id of the thread before it became the leader; else = tid */
  uint32_t parent_tgid; /* TASK_NEW of a clone: process that made it; 0 = unknown */
};

/* TASK_EXIT, written at the switch-out in state DEAD: final values of the kernel's counters. */
struct stepscope_task_exit {
  uint8_t type;
  uint8_t klass;
  uint16_t cpu;
  uint32_t tid;
  uint64_t time_ns;
  uint64_t switches;     /* nvcsw + nivcsw */
  uint64_t exec_ns;      /* se.sum_exec_runtime */
  uint64_t run_delay_ns; /* sched_info.run_delay */
  uint64_t min_faults;
  uint64_t maj_faults;
  uint32_t tgid;
  uint32_t reserved;
  char comm[16];
};

/* Who held a CPU during a part of a wait. */
struct stepscope_wait_part {
  uint32_t tid; /* host ids; 0 = the CPU idled: a wake-up on its way */
  uint32_t tgid;
  uint64_t ns;
};

#define STEPSCOPE_WAIT_PARTS 6u

/* A wait of at least STEPSCOPE_WAIT_MIN_NS, written when it ends: at the switch-in, and for what lies before a migration, at
 * that. Parts, others and unknown sum to time_ns - start_ns. The records of one wait join end to start. */
#define STEPSCOPE_WAIT_MIN_NS 20000u
struct stepscope_wait {
  uint8_t type; /* STEPSCOPE_WAIT */
  uint8_t klass;
  uint16_t cpu;     /* whose run queue it waited in */
  uint32_t tid;     /* who waited */
  uint64_t time_ns; /* end */
  uint64_t start_ns;
  uint64_t others_ns;                                     /* occupants beyond the parts */
  uint64_t unknown_ns;                                    /* before the history, or a switch was not seen */
  struct stepscope_wait_part parts[STEPSCOPE_WAIT_PARTS]; /* ns 0 = unused */
};

/* What a thread is doing right now: one per recorded thread each time the program "open_turns" is read. Not a ring record; the
 * slice or wait that ends it will say the same for good. */
struct stepscope_open_turn {
  uint32_t tid;
  uint32_t tgid;
  uint64_t since_ns;          /* in this state; 0 = not known */
  uint64_t runnable_since_ns; /* waiting for a CPU; 0 = it is not */
  uint64_t arg0;              /* of the system call, while blocked */
  uint16_t cpu;               /* where it runs or ran last */
  int16_t syscall;            /* nr it is blocked in; -1 = none */
  uint8_t klass;
  uint8_t is_on_cpu;
  uint8_t state; /* stepscope_slice_state it is off the CPU in */
  uint8_t reserved;
};

/* Mode "histogram": what one CPU saw of a class since the programs were loaded, instead of slices and waits. Bucket 0 counts what
 * is shorter than 1 us, bucket k what is in [2^(k-1), 2^k) us, the last one all that is longer. */
#define STEPSCOPE_HISTOGRAM_BUCKETS 32u
struct stepscope_sched_histogram {
  uint64_t waits[STEPSCOPE_HISTOGRAM_BUCKETS];
  uint64_t turns[STEPSCOPE_HISTOGRAM_BUCKETS];
  uint64_t wait_ns;
  uint64_t run_ns;
};

/* One entry per class in a per-CPU array: what this CPU wrote and could not write. */
struct stepscope_sched_books {
  uint64_t slices;          /* slice records written */
  uint64_t slices_lost;     /* turns without a record */
  uint64_t events_lost;     /* task events without a record (announcements are repeated, exits are not) */
  uint64_t closed_switches; /* switches of threads that died, since their first recorded turn: the sum check needs no event */
  uint64_t closed_threads;
  uint64_t waits;      /* wait records written */
  uint64_t waits_lost; /* waits of recordable length without a record */
  uint64_t stateless;  /* turns of threads that have no state: user space has prepare_threads make it */
};

/* Growth of se.sum_exec_runtime this record stands for. */
static inline int64_t stepscope_slice_exec_ns(const struct stepscope_slice* slice) {
  return (int64_t)(slice->off_ns - slice->on_ns + (uint64_t)(int64_t)slice->exec_over_ns);
}

#ifdef __cplusplus
static_assert(sizeof(struct stepscope_slice) == 64, "layout is a contract");
static_assert(sizeof(struct stepscope_task_event) == 64, "layout is a contract");
static_assert(sizeof(struct stepscope_task_exit) == 80, "layout is a contract");
static_assert(sizeof(struct stepscope_wait) == 136, "layout is a contract");
static_assert(sizeof(struct stepscope_open_turn) == 40, "layout is a contract");
#else
_Static_assert(sizeof(struct stepscope_slice) == 64, "layout is a contract");
_Static_assert(sizeof(struct stepscope_task_event) == 64, "layout is a contract");
_Static_assert(sizeof(struct stepscope_task_exit) == 80, "layout is a contract");
_Static_assert(sizeof(struct stepscope_wait) == 136, "layout is a contract");
_Static_assert(sizeof(struct stepscope_open_turn) == 40, "layout is a contract");
#endif

#endif /* STEPSCOPE_CONTRACT_SCHED_RECORD_H_ */
