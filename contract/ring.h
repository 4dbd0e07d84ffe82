// SPDX-License-Identifier: Apache-2.0
// The ring file: how records leave a traced process. C, shared by the agent (writer) and the daemon (reader).
//
// Vocabulary
//   ring file   one memfd per process, sealed SHRINK|GROW|SEAL before its first mmap. The process maps it; the daemon only
//               ever preads it and validates the copy, so nothing the process does to it can hurt the daemon.
//   ring        single producer (the thread that acquired it), single consumer (the sender thread; after the process is gone,
//               or has no live sender, the daemon). Ring 0 belongs to the sender itself.
//   position    64-bit count of bytes ever written to a ring. Byte at position p lies at data_offset + p % data_bytes.
//   committed   a record is committed when `head` has moved past it (release store). A reader never looks beyond `head`.
//   stored      the daemon has the bytes in its store; the acknowledged position becomes `tail`, which frees the space.
//
//   file:  0        8 KiB                       64 KiB           64 KiB + 8 MiB
//          ┌────────┬───────────────────────────┬────────────────┬─────────┬─────────┬──
//          │ header │ 224 descriptors × 256 B   │ ring 0 (8 MiB) │ ring 1  │ ring 2  │ …  256 KiB each (defaults)
//          └────────┴───────────────────────────┴────────────────┴─────────┴─────────┴──
//   ring:      tail            head
//          ┌────┬───────────────┬───────────────┐
//          │free│ waits for ack │     free      │   head - tail <= data_bytes, always
//          └────┴───────────────┴───────────────┘
//
// Who may move what
//   head, lost_*       the owning thread only
//   tail               the sender, from acknowledgements (nobody else; the daemon keeps its own positions)
//   state              FREE → ACTIVE by the thread that acquires (compare-exchange); ACTIVE → RETIRED by the owning thread's
//                      exit or by the sender when the tid is gone; RETIRED → FREE by the sender once head == tail, and
//                      generation + 1 with it. Positions of a new generation start at 0.
//   heartbeat          the sender, every pass
//
// Records are 8-byte aligned and never wrap: a PAD record fills the rest of the ring when the next one does not fit before
// its end. A record that would not fit into the free space is dropped, newest first, and counted in lost_*; as soon as there
// is room a LOST record tells the count and the interval in the stream itself, so that loss is stored exactly once like rows.
// A BEGIN is admitted only if the ENDs of all spans open on that ring still fit behind it: a span is lost whole or not at all.
//
// The header lists the kinds the writer may use with their least sizes; a reader skips kinds it does not know by size.
#ifndef STEPSCOPE_CONTRACT_RING_H_
#define STEPSCOPE_CONTRACT_RING_H_

#include <stdint.h>

#define STEPSCOPE_RING_MAGIC 0x31474e4952535353ull /* "SSSRING1" */
#define STEPSCOPE_RING_VERSION 1u
#define STEPSCOPE_RING_HEADER_BYTES 8192u
#define STEPSCOPE_RING_SLOTS 224u
#define STEPSCOPE_RING_DESCRIPTOR_BYTES 256u
#define STEPSCOPE_RING_ALIGNMENT 65536u
#define STEPSCOPE_RING_SENDER_BYTES (8u << 20)
#define STEPSCOPE_RING_THREAD_BYTES (256u << 10)
#define STEPSCOPE_RING_FILE_MAX_BYTES (64u << 20)
#define STEPSCOPE_NAME_MAX_BYTES 4096u  /* longer names are cut with a hash suffix */
#define STEPSCOPE_NAME_MAX_COUNT 65536u /* per process; beyond, id STEPSCOPE_NAME_OTHER */
#define STEPSCOPE_NAME_OTHER 1u         /* the name "(other)" */
#define STEPSCOPE_OPEN_SPANS_MAX 256u   /* open nested spans per ring; deeper ones are dropped and counted */
#define STEPSCOPE_NO_NUMBER INT64_MIN   /* number of a MARK whose name carried none */

enum stepscope_ring_state { STEPSCOPE_RING_FREE = 0, STEPSCOPE_RING_ACTIVE = 1, STEPSCOPE_RING_RETIRED = 2 };

struct stepscope_ring_kind {
  uint16_t kind;
  uint16_t min_bytes;
};

/* At file offset 0. */
struct stepscope_ring_header {
  uint64_t magic;
  uint32_t version;
  uint32_t header_bytes;
  uint8_t session[16];
  int32_t pid;         /* innermost */
  uint32_t clock_kind; /* hello.h stepscope_clock_kind */
  uint64_t file_bytes;
  uint32_t ring_slots;
  uint32_t descriptor_bytes;
  uint32_t kind_count;
  uint32_t closed;    /* 1 once an exit hook ran: nothing more will come */
  uint64_t heartbeat; /* sender's pass counter; 0 = no sender has run yet */
  int32_t sender_tid; /* innermost */
  uint32_t flags;
  uint64_t sender_cpu_ns;
  uint64_t no_ring_lost;        /* records dropped because no ring was left for a thread */
  uint64_t no_ring_first_ticks; /* first and last of them */
  uint64_t no_ring_last_ticks;
  struct stepscope_ring_kind kinds[64];
};

/* At header_bytes + i * descriptor_bytes. Cache line 0: owner. Line 1: sender. Lines 2, 3: set at acquisition. */
struct stepscope_ring_descriptor {
  uint64_t head;         /* atomic, release */
  uint64_t lost_records; /* cumulative over this generation */
  uint64_t lost_bytes;
  uint64_t lost_reported;    /* part of lost_records already told by LOST records */
  uint64_t lost_first_ticks; /* interval of the part not yet told */
  uint64_t lost_last_ticks;
  uint64_t line0_reserved[2];

  uint64_t tail; /* atomic */
  uint64_t line1_reserved[7];

  uint32_t state; /* atomic, stepscope_ring_state */
  uint32_t generation;
  int32_t tid; /* owning thread, innermost */
  uint32_t line2_reserved;
  uint64_t data_offset; /* in the file */
  uint64_t data_bytes;  /* power of two */
  uint64_t opened_ticks;
  char comm[16]; /* thread name at acquisition, not necessarily terminated */
  uint64_t line3_reserved[9];
};

enum stepscope_record_kind {
  STEPSCOPE_RECORD_PAD = 1,         /* skip `size` bytes */
  STEPSCOPE_RECORD_NAME = 2,        /* stepscope_record_name: defines header.name for the rest of this ring generation */
  STEPSCOPE_RECORD_BEGIN = 3,       /* stepscope_record_time: opens a nested span */
  STEPSCOPE_RECORD_BEGIN_N = 4,     /* stepscope_record_number: the same with a split-off number */
  STEPSCOPE_RECORD_END = 5,         /* stepscope_record_time: closes the innermost open span; header.name = 0, or the name of
                                       the span to close: inner ones left open are closed with it and flagged */
  STEPSCOPE_RECORD_TOKEN_BEGIN = 6, /* stepscope_record_token */
  STEPSCOPE_RECORD_TOKEN_END = 7,   /* stepscope_record_token, name and number 0; may lie in another ring than its begin */
  STEPSCOPE_RECORD_MARK = 8,        /* stepscope_record_number */
  STEPSCOPE_RECORD_COUNTER = 9,     /* stepscope_record_number; number = bits of a double */
  STEPSCOPE_RECORD_INFO = 10,       /* stepscope_record_info: job fact, name = key */
  STEPSCOPE_RECORD_WINDOW = 11,     /* stepscope_record_number; number 1 = start, 0 = stop */
  STEPSCOPE_RECORD_LOST = 12,       /* stepscope_record_lost */
  STEPSCOPE_RECORD_THREAD = 13,     /* stepscope_record_thread: first record of a ring generation */
  STEPSCOPE_RECORD_ANCHOR = 14,     /* stepscope_record_anchor: in the sender's ring, once a second */
  STEPSCOPE_RECORD_GIL = 15         /* stepscope_record_range */
};

struct stepscope_record {
  uint16_t kind;
  uint16_t size; /* bytes, this header included; multiple of 8 */
  uint32_t name; /* name id, 0 = none */
};
struct stepscope_record_time {
  struct stepscope_record header;
  uint64_t ticks;
};
struct stepscope_record_number {
  struct stepscope_record header;
  uint64_t ticks;
  int64_t number;
};
struct stepscope_record_token {
  struct stepscope_record header;
  uint64_t ticks;
  uint64_t token; /* unique in the session, never 0 */
  int64_t number;
  uint32_t has_number; /* 0 or 1 */
  uint32_t reserved;
};
/* Followed by `bytes` of UTF-8, zero-padded to the record size. Invalid UTF-8 was already replaced by U+FFFD. */
struct stepscope_record_name {
  struct stepscope_record header;
  uint16_t domain; /* 0 user, 1 step, 2 loader, 3 optimizer, 4 framework */
  uint16_t flags;  /* 1 = cut */
  uint32_t bytes;
};
struct stepscope_record_info {
  struct stepscope_record header;
  uint64_t ticks;
  uint32_t bytes;
  uint32_t reserved;
};
struct stepscope_record_lost {
  struct stepscope_record header;
  uint64_t records; /* since the previous LOST record */
  uint64_t bytes;
  uint64_t first_ticks;
  uint64_t last_ticks;
  uint64_t total; /* cumulative over the generation, these included */
};
struct stepscope_record_thread {
  struct stepscope_record header;
  uint64_t ticks;
  int32_t tid; /* innermost */
  uint32_t reserved;
  char comm[16];
};
struct stepscope_record_anchor {
  struct stepscope_record header;
  uint64_t ticks;       /* middle of the tightest of several brackets */
  uint64_t ticks_width; /* width of that bracket */
  uint64_t monotonic_ns;
  uint64_t realtime_ns;
};
/* GIL words of the interpreter: futex waits with an address in [begin, end) are waits for the GIL. */
struct stepscope_record_range {
  struct stepscope_record header;
  uint64_t ticks;
  uint64_t begin;
  uint64_t end;
};

#ifdef __cplusplus
#define STEPSCOPE_RING_ASSERT static_assert
#else
#define STEPSCOPE_RING_ASSERT _Static_assert
#endif
STEPSCOPE_RING_ASSERT(sizeof(struct stepscope_ring_header) == 368, "layout is a contract");
STEPSCOPE_RING_ASSERT(sizeof(struct stepscope_ring_descriptor) == STEPSCOPE_RING_DESCRIPTOR_BYTES, "layout is a contract");
STEPSCOPE_RING_ASSERT(STEPSCOPE_RING_HEADER_BYTES + STEPSCOPE_RING_SLOTS * STEPSCOPE_RING_DESCRIPTOR_BYTES ==
                          STEPSCOPE_RING_ALIGNMENT,
                      "header and descriptors fill the first 64 KiB");
STEPSCOPE_RING_ASSERT(sizeof(struct stepscope_record_time) == 16, "layout is a contract");
STEPSCOPE_RING_ASSERT(sizeof(struct stepscope_record_number) == 24, "layout is a contract");
STEPSCOPE_RING_ASSERT(sizeof(struct stepscope_record_token) == 40, "layout is a contract");
STEPSCOPE_RING_ASSERT(sizeof(struct stepscope_record_name) == 16, "layout is a contract");
STEPSCOPE_RING_ASSERT(sizeof(struct stepscope_record_lost) == 48, "layout is a contract");
STEPSCOPE_RING_ASSERT(sizeof(struct stepscope_record_thread) == 40, "layout is a contract");
STEPSCOPE_RING_ASSERT(sizeof(struct stepscope_record_anchor) == 40, "layout is a contract");

#endif /* STEPSCOPE_CONTRACT_RING_H_ */
