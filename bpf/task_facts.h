/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause OR GPL-2.0-only
 * What the kernel keeps about a task, read by name: its counters, the system call it is in, its ids as it sees them. A field some
 * kernels lack reads as 0. Used by sched.bpf.c. */
#ifndef STEPSCOPE_BPF_TASK_FACTS_H_
#define STEPSCOPE_BPF_TASK_FACTS_H_

#include "bpf/kernel_types.h"

/* Below the types, as they use them. */
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "bpf/slice_logic.h"

#if defined(__TARGET_ARCH_x86)
#define NR_POLL 7
#define NR_PPOLL 271
#else
#define NR_POLL -2 /* not on this architecture */
#define NR_PPOLL 73
#endif
#define SYSCALL_NR_MASK 0x3fffffff /* drops the x32 bit */

static __always_inline __u64 run_delay_of(struct task_struct* task) {
  if (!bpf_core_field_exists(task->sched_info.run_delay)) return 0;
  return task->sched_info.run_delay;
}

static __always_inline __u64 queue_clock_of(struct task_struct* task) {
  if (!bpf_core_field_exists(task->se.cfs_rq)) return 0;
  return task->se.cfs_rq->rq->clock;
}

static __always_inline __u32 cpu_of(const struct task_struct* task) {
  if (bpf_core_field_exists(task->thread_info.cpu)) return task->thread_info.cpu;
  if (bpf_core_field_exists(task->cpu)) return task->cpu;
  return bpf_get_smp_processor_id();
}

/* From 6.18 each task says so itself, and one that runs in the kernel under a throttled queue is not throttled yet. */
static __always_inline bool is_throttled(struct task_struct* task) {
  if (bpf_core_field_exists(task->throttled)) return task->throttled;
  if (!bpf_core_field_exists(task->se.cfs_rq)) return false;
  struct cfs_rq* queue = task->se.cfs_rq;
  return bpf_core_field_exists(queue->throttle_count) && queue->throttle_count > 0;
}

static __always_inline void read_baselines(struct stepscope_task_counters* c, struct task_struct* task) {
  c->exec_ns = task->se.sum_exec_runtime;
  c->run_delay_ns = run_delay_of(task);
  c->min_faults = task->min_flt;
  c->maj_faults = task->maj_flt;
  c->clock_ns = queue_clock_of(task);
}

static __always_inline void read_syscall(struct stepscope_task_counters* c, struct task_struct* task) {
  struct pt_regs* regs = (struct pt_regs*)bpf_task_pt_regs(task);
#if defined(__TARGET_ARCH_x86)
  long nr = regs->orig_ax;
  __u64 arg0 = regs->di;
#elif defined(__TARGET_ARCH_arm64)
  long nr = regs->syscallno;
  __u64 arg0 = regs->orig_x0;
#endif
  c->syscall = nr < 0 ? -1 : (nr & SYSCALL_NR_MASK);
  c->arg0 = nr < 0 ? 0 : arg0;
}

/* poll's first argument is a pointer; what says more is the first descriptor it points to. Of the current task alone: it is its
 * memory that is read. A page that is out reads as no descriptor. */
static __always_inline void read_polled_fd(struct stepscope_task_counters* c) {
  if (c->syscall != NR_POLL && c->syscall != NR_PPOLL) return;
  __s32 fd = -1;
  bpf_probe_read_user(&fd, sizeof(fd), (const void*)c->arg0);
  c->arg0 = (__u64)(__s64)fd;
}

/* Ids as the thread itself sees them: its number in the innermost of its pid namespaces. */
static __always_inline __u32 read_inner_id(struct task_struct* task, __u32* namespace_inode) {
  struct pid* pid = task->thread_pid;
  __u32 level = pid->level;
  struct upid upid = {};
  __u64 offset = bpf_core_field_offset(struct pid, numbers) + level * bpf_core_type_size(struct upid);
  if (bpf_probe_read_kernel(&upid.nr, sizeof(upid.nr), (char*)pid + offset + bpf_core_field_offset(struct upid, nr))) return 0;
  bpf_probe_read_kernel(&upid.ns, sizeof(upid.ns), (char*)pid + offset + bpf_core_field_offset(struct upid, ns));
  if (namespace_inode) *namespace_inode = BPF_CORE_READ(upid.ns, ns.inum);
  return upid.nr;
}

/* A thread that has not been switched since it is recorded has no state; the run queue's clock of its last arrival is all there
 * is, good for one that runs. */
static __always_inline __u64 last_arrival_of(struct task_struct* task, __u64 now_ns) {
  if (!bpf_core_field_exists(task->sched_info.last_arrival) || !task->sched_info.last_arrival) return 0;
  __u64 clock_ns = queue_clock_of(task);
  return clock_ns > task->sched_info.last_arrival ? now_ns - (clock_ns - task->sched_info.last_arrival) : 0;
}

#endif /* STEPSCOPE_BPF_TASK_FACTS_H_ */
