/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause OR GPL-2.0-only
 * The few kernel types sched.bpf.c looks into, by name only: CO-RE relocates every field to the running kernel's layout when
 * the object is loaded, so neither order nor offsets matter here and no kernel headers are needed to build. A field that some
 * kernels lack is asked for with bpf_core_field_exists before it is read. */
#ifndef STEPSCOPE_BPF_KERNEL_TYPES_H_
#define STEPSCOPE_BPF_KERNEL_TYPES_H_

#include <linux/bpf.h>
#include <stdbool.h>
#include <stdint.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct rq {
  __u64 clock;
};

struct cfs_rq {
  struct rq* rq;
  int throttle_count; /* CONFIG_CFS_BANDWIDTH */
};

struct sched_entity {
  __u64 sum_exec_runtime;
  __u64 prev_sum_exec_runtime;
  struct cfs_rq* cfs_rq; /* CONFIG_FAIR_GROUP_SCHED */
};

struct sched_info {
  unsigned long long run_delay; /* CONFIG_SCHED_INFO */
};

struct ns_common {
  unsigned int inum;
};

struct pid_namespace {
  struct ns_common ns;
};

struct upid {
  int nr;
  struct pid_namespace* ns;
};

struct pid {
  unsigned int level;
  struct upid numbers[1];
};

struct thread_info {
  __u32 cpu;
};

struct task_struct {
  struct thread_info thread_info; /* its cpu: x86 from 5.16, arm64 */
  unsigned int cpu;               /* before */
  unsigned int __state;
  int on_rq;
  int pid;
  int tgid;
  unsigned long nvcsw;
  unsigned long nivcsw;
  unsigned long min_flt;
  unsigned long maj_flt;
  unsigned int in_iowait : 1;
  bool throttled; /* 6.18 */
  struct sched_entity se;
  struct sched_info sched_info;
  struct task_struct* group_leader;
  struct pid* thread_pid;
  __u64 start_boottime;
  char comm[16];
};

struct pt_regs {
#if defined(__TARGET_ARCH_x86)
  unsigned long di;
  unsigned long orig_ax;
#elif defined(__TARGET_ARCH_arm64)
  __u64 orig_x0;
  __s32 syscallno;
#endif
};

#pragma clang attribute pop

#endif /* STEPSCOPE_BPF_KERNEL_TYPES_H_ */
