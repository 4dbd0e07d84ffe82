/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause OR GPL-2.0-only
 * Who wakes: the current task, or an interrupt that borrows it. Programs at the beginnings and ends of interrupts mark what each
 * CPU is in; sched.bpf.c asks at a wake. In an interrupt the current task is a bystander and never named, but for a packet it
 * sent to its own machine. */
#ifndef STEPSCOPE_BPF_WAKE_SOURCE_H_
#define STEPSCOPE_BPF_WAKE_SOURCE_H_

#include "bpf/kernel_types.h"

/* Below the types, as they use them. */
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "contract/sched_record.h"

/* Numbers of the kernel's softirq vectors: ABI of the tracepoint, unchanged since 2.6. */
enum softirq_vector { VECTOR_TIMER = 1, VECTOR_NET_RX = 3, VECTOR_BLOCK = 4, VECTOR_IRQ_POLL = 5, VECTOR_HRTIMER = 8 };

/* What a CPU is doing besides its current task. Set and cleared, not counted: one missed event heals at the next. */
struct interrupt_context {
  __u8 in_timer;
  __u8 in_irq;
  __u8 softirq; /* vector + 1, 0 = none */
  __u8 pad;
  __u32 net_sender; /* tid of the task that raised NET_RX for a packet of its own; 0 = an interrupt raised it */
};

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct interrupt_context);
} interrupts SEC(".maps");

struct wake_source {
  __u32 kind;
  __u32 tid;
};

static __always_inline struct wake_source wake_source_now(void) {
  struct wake_source source = {STEPSCOPE_WAKER_UNKNOWN, 0};
  __u32 zero = 0;
  struct interrupt_context* context = bpf_map_lookup_elem(&interrupts, &zero);
  if (!context) return source;
  if (context->in_timer) {
    source.kind = STEPSCOPE_WAKER_TIMER;
  } else if (context->in_irq) {
    source.kind = STEPSCOPE_WAKER_IRQ;
  } else if (!context->softirq) {
    source.kind = STEPSCOPE_WAKER_TASK;
    source.tid = (__u32)bpf_get_current_pid_tgid();
  } else {
    __u32 vector = context->softirq - 1;
    source.kind = STEPSCOPE_WAKER_IRQ;
    if (vector == VECTOR_TIMER || vector == VECTOR_HRTIMER) source.kind = STEPSCOPE_WAKER_TIMER;
    if (vector == VECTOR_BLOCK || vector == VECTOR_IRQ_POLL) source.kind = STEPSCOPE_WAKER_DISK;
    if (vector == VECTOR_NET_RX) {
      source.tid = context->net_sender;
      source.kind = source.tid ? STEPSCOPE_WAKER_LOCAL_NET : STEPSCOPE_WAKER_NET;
    }
  }
  return source;
}

static __always_inline int set_interrupt(__u32 offset, __u8 value) {
  __u32 zero = 0;
  struct interrupt_context* context = bpf_map_lookup_elem(&interrupts, &zero);
  if (context) ((__u8*)context)[offset] = value;
  return 0;
}

/* Ends stand before beginnings: programs are attached in this order, and a mark must not outlive its interrupt. */
SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(hrtimer_end) { return set_interrupt(__builtin_offsetof(struct interrupt_context, in_timer), 0); }
SEC("tp_btf/irq_handler_exit")
int BPF_PROG(irq_end) { return set_interrupt(__builtin_offsetof(struct interrupt_context, in_irq), 0); }
SEC("tp_btf/softirq_exit")
int BPF_PROG(softirq_end, unsigned int vector) {
  __u32 zero = 0;
  struct interrupt_context* context = bpf_map_lookup_elem(&interrupts, &zero);
  if (!context) return 0;
  context->softirq = 0;
  if (vector == VECTOR_NET_RX) context->net_sender = 0;
  return 0;
}
SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(hrtimer_begin) { return set_interrupt(__builtin_offsetof(struct interrupt_context, in_timer), 1); }
SEC("tp_btf/irq_handler_entry")
int BPF_PROG(irq_begin) { return set_interrupt(__builtin_offsetof(struct interrupt_context, in_irq), 1); }
SEC("tp_btf/softirq_entry")
int BPF_PROG(softirq_begin, unsigned int vector) {
  return set_interrupt(__builtin_offsetof(struct interrupt_context, softirq), vector + 1);
}

/* NET_RX raised by a task itself: it sent a packet to this very machine, and the softirq that delivers it runs in its name. */
SEC("tp_btf/softirq_raise")
int BPF_PROG(softirq_raised, unsigned int vector) {
  if (vector != VECTOR_NET_RX) return 0;
  __u32 zero = 0;
  struct interrupt_context* context = bpf_map_lookup_elem(&interrupts, &zero);
  if (!context) return 0;
  bool by_task = !context->in_irq && !context->in_timer && !context->softirq;
  context->net_sender = by_task ? (__u32)bpf_get_current_pid_tgid() : 0;
  return 0;
}

#endif /* STEPSCOPE_BPF_WAKE_SOURCE_H_ */
