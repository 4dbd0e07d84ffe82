/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause OR GPL-2.0-only
 * Scheduling records of the processes of tracked jobs: one stepscope_slice per turn, written at switch-out, and the task
 * events that say which thread and process it belongs to (contract/sched_record.h). Typed tracepoints only.
 *
 * Who is recorded is one byte per process, class_of[tgid], set by user space for the processes it finds and inherited here by
 * every process a recorded one creates. A switch between processes that are not recorded only
 * enters the CPU's history (occupants.h), which says who kept a recorded thread waiting.
 *
 * Nothing is lost in silence: a record that finds no room is counted in `books`, per CPU and class, and a thread's next
 * record waits until its announcement got through. The state machine is slice_logic.h. */
#include "bpf/kernel_types.h"
#include "bpf/occupants.h"
#include "bpf/slice_logic.h"
#include "bpf/task_facts.h"
#include "bpf/turn_histogram.h"
#include "bpf/wake_source.h"

/* Below the types, as they use them. */
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define MAX_RINGS 64
#define CLONE_THREAD 0x00010000
#define WORST_RECORD_BYTES 256 /* ring bytes one program run may add */
#define ON_RQ_NOT 0

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before load. */
const volatile __u32 cpus_per_ring = 16;
const volatile __u32 as_histogram = 0; /* count turns and waits here instead of writing them */
const volatile __u32 wake_bytes = 0;   /* a ring wakes its reader each time it fills by so much (power of two); 0 = never */

/* Bumped at each attachment: thread state of an earlier one is stale. */
__u32 attachment SEC(".data") = 0;
/* The process whose threads a pass of prepare_threads is for. */
__u32 prepared_tgid SEC(".data") = 0;

/* mmap-ed: plain byte stores from both sides. The only variable of .bss. */
__u8 class_of[STEPSCOPE_MAX_TGID];

struct ring_map {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 4096);
};

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
  __uint(max_entries, MAX_RINGS);
  __type(key, __u32);
  __array(values, struct ring_map);
} rings SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, int);
  __type(value, struct stepscope_thread_state);
} threads SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, STEPSCOPE_CLASS_COUNT);
  __type(key, __u32);
  __type(value, struct stepscope_sched_books);
} books SEC(".maps");

/* Indexed by CPU. Not a per-CPU map: a migration reads the history of the CPU that is left. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct stepscope_cpu_history);
} histories SEC(".maps");

static __always_inline __u32 class_of_task(const struct task_struct* task) {
  __u32 tgid = task->tgid;
  return class_of[tgid & (STEPSCOPE_MAX_TGID - 1)];
}

static __always_inline bool is_recorded(__u32 klass) { return klass >= STEPSCOPE_CLASS_FIRST_JOB; }

static __always_inline struct stepscope_sched_books* books_of(__u32 klass) { return bpf_map_lookup_elem(&books, &klass); }

static __always_inline void* ring_of_cpu(__u32 cpu) {
  __u32 index = cpu / cpus_per_ring;
  return bpf_map_lookup_elem(&rings, &index);
}

static __always_inline void submit(void* ring, void* record) {
  __u64 flags = BPF_RB_NO_WAKEUP;
  __u64 pending = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);
  if (wake_bytes && pending >= wake_bytes && (pending & (wake_bytes - 1)) < WORST_RECORD_BYTES) flags = BPF_RB_FORCE_WAKEUP;
  bpf_ringbuf_submit(record, flags);
}

/* State of a thread for this attachment and class; null if it was never made. */
static __always_inline struct stepscope_thread_state* get_state(struct task_struct* task, __u32 klass, __u64 flags) {
  struct stepscope_thread_state* state = bpf_task_storage_get(&threads, task, 0, flags);
  __u32 owner = (attachment << 8) | klass;
  if (state && state->owner != owner) {
    __builtin_memset(state, 0, sizeof(*state));
    state->owner = owner;
  }
  return state;
}

static __always_inline struct stepscope_thread_state* state_of(struct task_struct* task, __u32 klass) {
  return get_state(task, klass, 0);
}

/* Not under the scheduler's locks: before kernel 6.4 new storage comes from an allocator that may wake a thread. */
static __always_inline struct stepscope_thread_state* make_state(struct task_struct* task, __u32 klass) {
  return get_state(task, klass, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/* `now_ns` is the switch's own time where there is one, so that events and slices of a CPU sort as they were written.
 * False when the ring had no room: counted, and the thread will be announced again. */
static __always_inline bool write_event(struct task_struct* task, struct stepscope_thread_state* state, __u32 klass, __u32 type,
                                        __u32 old_tid, __u32 parent_tgid, const char* new_comm, __u64 now_ns) {
  __u32 cpu = bpf_get_smp_processor_id();
  void* ring = ring_of_cpu(cpu);
  struct stepscope_task_event* event = ring ? bpf_ringbuf_reserve(ring, sizeof(*event), 0) : 0;
  if (!event) {
    struct stepscope_sched_books* book = books_of(klass);
    if (book) book->events_lost++;
    state->announced_tid = 0;
    return false;
  }
  event->type = type;
  event->klass = klass;
  event->cpu = cpu;
  event->tid = task->pid;
  event->time_ns = now_ns;
  event->process_start_ns = task->group_leader->start_boottime;
  event->tgid = task->tgid;
  event->pid_ns = 0;
  event->inner_tid = read_inner_id(task, &event->pid_ns);
  event->inner_tgid = read_inner_id(task->group_leader, 0);
  __builtin_memset(event->comm, 0, sizeof(event->comm));
  bpf_probe_read_kernel_str(event->comm, sizeof(event->comm), new_comm ? new_comm : task->comm);
  event->old_tid = old_tid ? old_tid : event->tid;
  event->parent_tgid = parent_tgid;
  submit(ring, event);
  state->announced_tid = task->pid;
  return true;
}

static __always_inline void write_exit(struct task_struct* task, struct stepscope_thread_state* state, __u32 klass,
                                       const struct stepscope_task_counters* c, struct stepscope_sched_books* book) {
  book->closed_switches += c->switches - state->switches_before;
  book->closed_threads++;
  void* ring = ring_of_cpu(c->cpu);
  struct stepscope_task_exit* record = ring ? bpf_ringbuf_reserve(ring, sizeof(*record), 0) : 0;
  if (!record) {
    book->events_lost++;
    return;
  }
  record->type = STEPSCOPE_TASK_EXIT;
  record->klass = klass;
  record->cpu = c->cpu;
  record->tid = c->tid;
  record->time_ns = c->now_ns;
  record->switches = c->switches;
  record->exec_ns = c->exec_ns;
  record->run_delay_ns = c->run_delay_ns;
  record->min_faults = c->min_faults;
  record->maj_faults = c->maj_faults;
  record->tgid = task->tgid;
  record->reserved = 0;
  __builtin_memset(record->comm, 0, sizeof(record->comm));
  bpf_probe_read_kernel_str(record->comm, sizeof(record->comm), task->comm);
  submit(ring, record);
}

static __always_inline struct stepscope_cpu_history* history_of(__u32 cpu) { return bpf_map_lookup_elem(&histories, &cpu); }

/* Global, so that it is verified once and by itself: its loops would multiply the paths of its callers. */
__noinline int add_occupants(struct stepscope_wait* wait, __u32 cpu, __u64 from_ns) {
  struct stepscope_cpu_history* history = history_of(cpu);
  if (!wait) return 0;
  if (history)
    stepscope_add_occupants(wait, history, from_ns, wait->time_ns);
  else
    wait->unknown_ns += wait->time_ns - from_ns;
  return 0;
}

static __always_inline void write_wait(const struct task_struct* task, __u32 klass, __u32 cpu,
                                       const struct stepscope_wait_piece* piece) {
  struct stepscope_sched_books* book = books_of(klass);
  if (!book) return;
  void* ring = ring_of_cpu(bpf_get_smp_processor_id());
  struct stepscope_wait wait = {};
  wait.type = STEPSCOPE_WAIT;
  wait.klass = klass;
  wait.cpu = cpu;
  wait.tid = task->pid;
  wait.time_ns = piece->end_ns;
  wait.start_ns = piece->start_ns;
  wait.unknown_ns = piece->from_ns - piece->start_ns;
  add_occupants(&wait, cpu, piece->from_ns);
  struct stepscope_wait* record = ring ? bpf_ringbuf_reserve(ring, sizeof(*record), 0) : 0;
  if (!record) {
    book->waits_lost++;
    return;
  }
  __builtin_memcpy(record, &wait, sizeof(wait));
  submit(ring, record);
  book->waits++;
}

/* Of the wait in front of the turn that runs now, what is not told yet. */
static __always_inline void tell_wait(const struct task_struct* task, struct stepscope_thread_state* state, __u32 klass,
                                      __u32 cpu) {
  if (state->wait_ns < STEPSCOPE_WAIT_MIN_NS || state->announced_tid != (__u32)task->pid) return;
  struct stepscope_wait_piece piece;
  if (stepscope_end_piece(state, state->on_ns - state->wait_ns, state->on_ns, /*is_over=*/1, &piece))
    write_wait(task, klass, cpu, &piece);
}

static __always_inline void switch_out_counted(struct task_struct* task, __u32 klass, bool preempt, __u32 prev_state,
                                               __u64 now_ns) {
  struct stepscope_sched_books* book = books_of(klass);
  struct stepscope_thread_state* state = state_of(task, klass);
  if (!book) return;
  if (!state) {
    book->stateless++;
    return;
  }
  struct stepscope_task_counters c = {};
  c.now_ns = now_ns;
  c.switches = task->nvcsw + task->nivcsw;
  c.turn_exec_ns = task->se.sum_exec_runtime - task->se.prev_sum_exec_runtime;
  c.tid = task->pid;
  c.state = prev_state;
  c.cpu = bpf_get_smp_processor_id();
  c.is_preempted = preempt;
  if (!state->on_ns) stepscope_heal(state, &c);
  count_turn(state, klass, &c);
  stepscope_on_switch_out(state, &c, 0);
  book->slices++;
  if (state->end_state != STEPSCOPE_STATE_DEAD) return;
  read_baselines(&c, task);
  write_exit(task, state, klass, &c, book);
}

static __always_inline void switch_out(struct task_struct* task, __u32 klass, bool preempt, __u32 prev_state, __u64 now_ns) {
  struct stepscope_sched_books* book = books_of(klass);
  if (!book) return;
  struct stepscope_thread_state* state = state_of(task, klass);
  if (!state) {
    book->slices_lost++;
    book->stateless++;
    return;
  }
  struct stepscope_task_counters c = {};
  read_baselines(&c, task);
  read_syscall(&c, task);
  read_polled_fd(&c);
  c.now_ns = now_ns;
  c.switches = task->nvcsw + task->nivcsw;
  c.turn_exec_ns = c.exec_ns - task->se.prev_sum_exec_runtime;
  c.tid = task->pid;
  c.state = prev_state;
  c.cpu = bpf_get_smp_processor_id();
  c.is_preempted = preempt;
  c.is_in_iowait = BPF_CORE_READ_BITFIELD(task, in_iowait);
  c.is_throttled = is_throttled(task);
  if (!state->on_ns) {
    stepscope_heal(state, &c);
    tell_wait(task, state, klass, c.cpu);
  }

  void* ring = ring_of_cpu(c.cpu);
  struct stepscope_slice* slice = 0;
  bool is_announced = state->announced_tid == c.tid || write_event(task, state, klass, STEPSCOPE_TASK_NEW, 0, 0, 0, now_ns);
  if (ring && is_announced) slice = bpf_ringbuf_reserve(ring, sizeof(*slice), 0);
  if (slice) {
    stepscope_on_switch_out(state, &c, slice);
    submit(ring, slice);
    book->slices++;
  } else {
    stepscope_on_switch_out(state, &c, 0);
    book->slices_lost++;
  }
  if (state->end_state == STEPSCOPE_STATE_DEAD) write_exit(task, state, klass, &c, book);
}

static __always_inline void switch_in(struct task_struct* task, __u32 klass, __u32 cpu, __u64 now_ns) {
  struct stepscope_thread_state* state = state_of(task, klass);
  if (!state) return;
  struct stepscope_task_counters c = {};
  read_baselines(&c, task);
  c.now_ns = now_ns;
  stepscope_on_switch_in(state, &c);
  if (as_histogram) return count_wait(state, klass);
  tell_wait(task, state, klass, cpu);
}

static __always_inline int on_switch(bool preempt, struct task_struct* prev, struct task_struct* next, __u32 prev_state) {
  __u32 prev_class = class_of_task(prev);
  __u32 next_class = class_of_task(next);
  __u32 cpu = bpf_get_smp_processor_id();
  __u64 now_ns = bpf_ktime_get_ns();
  if (as_histogram && !is_recorded(prev_class) && !is_recorded(next_class)) return 0;
  struct stepscope_cpu_history* history = as_histogram ? 0 : history_of(cpu);
  if (history && stepscope_missed_switch(history, prev->pid))
    stepscope_mend_turns(history, now_ns, prev->pid, prev->tgid, prev->se.sum_exec_runtime - prev->se.prev_sum_exec_runtime);
  if (is_recorded(prev_class) && as_histogram) switch_out_counted(prev, prev_class, preempt, prev_state, now_ns);
  if (is_recorded(prev_class) && !as_histogram) switch_out(prev, prev_class, preempt, prev_state, now_ns);
  if (is_recorded(next_class)) switch_in(next, next_class, cpu, now_ns);
  if (!history) return 0;
  stepscope_note_turn(history, now_ns, next->pid, next->tgid);
  return 0;
}

/* Kernels whose tracepoint carries the state prev was in when it decided to leave. */
SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct* prev, struct task_struct* next, unsigned int prev_state) {
  return on_switch(preempt, prev, next, prev_state);
}

/* Kernels before that: __state may already say WAKING (blocked) where it was more precise. The loader picks one of the two. */
SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch_no_state, bool preempt, struct task_struct* prev, struct task_struct* next) {
  return on_switch(preempt, prev, next, prev->__state);
}

/* A wait that a migration cuts enters run_delay before the switch-in, so the books of a thread begin where its wait begins. */
static __always_inline void begin_books(struct task_struct* task, struct stepscope_thread_state* state) {
  if (state->has_baseline) return;
  struct stepscope_task_counters c = {};
  read_baselines(&c, task);
  stepscope_set_baseline(state, &c);
}

/* sched_waking, not sched_wakeup: the latter may run on the sleeper's CPU, where the current task is not the waker. */
SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct* task) {
  __u32 klass = class_of_task(task);
  if (!is_recorded(klass)) return 0;
  struct stepscope_thread_state* state = state_of(task, klass);
  if (!state) return 0;
  begin_books(task, state);
  struct wake_source source = wake_source_now();
  stepscope_on_wake(state, bpf_ktime_get_ns(), source.tid, source.kind);
  return 0;
}

/* A queued thread changes its run queue: its wait in the old one is told from that CPU's history. (A thread that is being woken
 * is placed before it queues: no wait yet.) The old queue's lock is held, so that CPU switches to nobody meanwhile. */
SEC("tp_btf/sched_migrate_task")
int BPF_PROG(sched_migrate_task, struct task_struct* task) {
  __u32 klass = class_of_task(task);
  if (as_histogram || !is_recorded(klass) || task->on_rq == ON_RQ_NOT) return 0;
  struct stepscope_thread_state* state = state_of(task, klass);
  if (!state) return 0;
  __u64 wait_start_ns = stepscope_wait_start(state);
  if (!wait_start_ns) return 0;
  struct stepscope_wait_piece piece;
  if (stepscope_end_piece(state, wait_start_ns, bpf_ktime_get_ns(), /*is_over=*/0, &piece))
    write_wait(task, klass, cpu_of(task), &piece);
  return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(sched_wakeup_new, struct task_struct* task) {
  __u32 klass = class_of_task(task);
  if (!is_recorded(klass)) return 0;
  struct stepscope_thread_state* state = state_of(task, klass);
  if (!state) return 0;
  begin_books(task, state);
  state->is_new = 1;
  stepscope_on_wake(state, bpf_ktime_get_ns(), (__u32)bpf_get_current_pid_tgid(), STEPSCOPE_WAKER_TASK);
  return 0;
}

SEC("tp_btf/task_newtask")
int BPF_PROG(task_newtask, struct task_struct* task, unsigned long clone_flags) {
  __u32 parent_tgid = bpf_get_current_pid_tgid() >> 32;
  __u32 tgid = task->tgid;
  __u32 klass = class_of[parent_tgid & (STEPSCOPE_MAX_TGID - 1)];
  if (!is_recorded(klass)) klass = STEPSCOPE_CLASS_OUT;
  /* Also clears what an earlier owner of a reused id left behind. */
  if (!(clone_flags & CLONE_THREAD)) class_of[tgid & (STEPSCOPE_MAX_TGID - 1)] = klass;
  if (!is_recorded(klass)) return 0;
  struct stepscope_thread_state* state = make_state(task, klass);
  if (state) write_event(task, state, klass, STEPSCOPE_TASK_NEW, 0, parent_tgid, 0, bpf_ktime_get_ns());
  return 0;
}

SEC("tp_btf/task_rename")
int BPF_PROG(task_rename, struct task_struct* task, const char* comm) {
  __u32 klass = class_of_task(task);
  if (!is_recorded(klass)) return 0;
  struct stepscope_thread_state* state = make_state(task, klass);
  if (state) write_event(task, state, klass, STEPSCOPE_TASK_RENAME, 0, 0, comm, bpf_ktime_get_ns());
  return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(sched_process_exec, struct task_struct* task, int old_pid) {
  __u32 klass = class_of_task(task);
  if (!is_recorded(klass)) return 0;
  struct stepscope_thread_state* state = make_state(task, klass);
  if (state) write_event(task, state, klass, STEPSCOPE_TASK_EXEC, old_pid, 0, 0, bpf_ktime_get_ns());
  return 0;
}

/* Read for a process before it is recorded: threads older than that announced themselves to nobody. */
SEC("iter/task")
int prepare_threads(struct bpf_iter__task* context) {
  struct task_struct* task = context->task;
  if (task && (__u32)task->tgid == prepared_tgid) bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
  return 0;
}

/* Read once a second while somebody watches: what each recorded thread is doing now, also if that lasts for minutes. */
SEC("iter/task")
int open_turns(struct bpf_iter__task* context) {
  struct task_struct* task = context->task;
  if (!task) return 0;
  __u32 klass = class_of_task(task);
  if (!is_recorded(klass)) return 0;
  __u64 now_ns = bpf_ktime_get_ns();
  struct stepscope_thread_state* state = bpf_task_storage_get(&threads, task, 0, 0);
  bool is_known = state && state->owner == ((attachment << 8) | klass);
  struct stepscope_task_counters c = {};
  struct stepscope_open_turn turn = {};
  turn.tid = task->pid;
  turn.tgid = task->tgid;
  turn.klass = klass;
  turn.cpu = cpu_of(task);
  turn.is_on_cpu = bpf_core_field_exists(task->on_cpu) ? task->on_cpu != 0 : is_known && state->on_ns;
  turn.syscall = -1;
  if (turn.is_on_cpu) {
    turn.since_ns = is_known && state->on_ns ? state->on_ns : last_arrival_of(task, now_ns);
  } else {
    read_syscall(&c, task);
    turn.syscall = c.syscall;
    turn.arg0 = c.syscall == NR_POLL || c.syscall == NR_PPOLL ? 0 : c.arg0;
    if (is_known) {
      turn.since_ns = state->off_ns;
      turn.state = state->end_state;
      if (task->__state == 0) turn.runnable_since_ns = stepscope_wait_start(state);
    }
  }
  bpf_seq_write(context->meta->seq, &turn, sizeof(turn));
  return 0;
}
