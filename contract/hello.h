// SPDX-License-Identifier: Apache-2.0
// The handshake between an agent and the daemon on the unix socket, before HTTP/2 starts. C, shared with the agent.
//
//   agent                                   daemon (accepts itself, reads SO_PEERCRED and a pidfd)
//   connect
//   sendmsg { stepscope_hello, facts } + SCM_RIGHTS{memfd}  ── one message, non-blocking, not waited for
//                                           checks magic, size, tmpfs, seals (SHRINK|GROW|SEAL), file size; never maps the file
//                                           answers stepscope_hello_reply + positions, or a reply with status != 0 and closes
//   HTTP/2 preface, AgentService/Push with the metadata "stepscope-nonce-bin: <16 bytes>" (base64 on the wire as gRPC says)
//
// All integers are little-endian, structs are packed by construction (no padding), sizes are asserted. A reader accepts a
// larger `size` than it knows and ignores the tail; a smaller one than version 1 is refused.
#ifndef STEPSCOPE_CONTRACT_HELLO_H_
#define STEPSCOPE_CONTRACT_HELLO_H_

#include <stdint.h>

#define STEPSCOPE_HELLO_MAGIC 0x314f4c4c45485353ull       /* "SSHELLO1" read as little-endian u64 */
#define STEPSCOPE_HELLO_REPLY_MAGIC 0x31594c5045525353ull /* "SSREPLY1" */
#define STEPSCOPE_HELLO_VERSION 1u
#define STEPSCOPE_HELLO_MAX_BYTES 8192u /* header + facts */
#define STEPSCOPE_NONCE_BYTES 16u

/* Which clock the ticks in ring records come from. */
enum stepscope_clock_kind {
  STEPSCOPE_CLOCK_TSC = 1,       /* rdtsc; constant and non-stop, and the kernel's clocksource */
  STEPSCOPE_CLOCK_MONOTONIC = 2, /* clock_gettime(CLOCK_MONOTONIC), ns */
  STEPSCOPE_CLOCK_CNTVCT = 3     /* arm64 virtual counter */
};

struct stepscope_hello {
  uint64_t magic;
  uint32_t version;
  uint32_t size;         /* of this struct */
  uint8_t session[16];   /* random; the same as in the ring file header */
  int32_t pid;           /* getpid() as the process sees it (innermost namespace); the daemon trusts credentials */
  int32_t tid;           /* gettid() of the calling thread, innermost */
  uint32_t uid;          /* claimed; a mismatch with the credentials is refused and logged */
  uint32_t clock_kind;   /* stepscope_clock_kind */
  uint64_t ticks;        /* reading of that clock ... */
  uint64_t monotonic_ns; /* ... and CLOCK_MONOTONIC right after it: a time namespace shows as an offset */
  uint64_t realtime_ns;
  uint64_t file_bytes;           /* size of the memfd */
  uint32_t parent_session_known; /* 1 if this process was forked from a recorded one */
  uint8_t parent_session[16];
  uint32_t facts_bytes; /* bytes of facts that follow: "KEY=value\0" repeated, an allow-list of rank and scheduler names */
};

/* One stored position; count of them follows the reply header. */
struct stepscope_hello_position {
  uint32_t ring;
  uint32_t generation;
  uint64_t position; /* bytes of that ring already stored */
};

enum stepscope_hello_status {
  STEPSCOPE_HELLO_OK = 0,
  STEPSCOPE_HELLO_BAD_MESSAGE = 1,
  STEPSCOPE_HELLO_BAD_FILE = 2,
  STEPSCOPE_HELLO_DENIED = 3,
  STEPSCOPE_HELLO_BUSY = 4, /* too many sessions; try again later */
  STEPSCOPE_HELLO_STOP = 5  /* the daemon does not want this session (disk full); keep the ring, retry */
};

struct stepscope_hello_reply {
  uint64_t magic;
  uint32_t version;
  uint32_t status; /* stepscope_hello_status */
  uint8_t nonce[STEPSCOPE_NONCE_BYTES];
  uint32_t position_count; /* stepscope_hello_position entries that follow */
  uint32_t reserved;
};

#ifdef __cplusplus
static_assert(sizeof(struct stepscope_hello) == 104, "layout is a contract");
static_assert(sizeof(struct stepscope_hello_position) == 16, "layout is a contract");
static_assert(sizeof(struct stepscope_hello_reply) == 40, "layout is a contract");
#else
_Static_assert(sizeof(struct stepscope_hello) == 104, "layout is a contract");
_Static_assert(sizeof(struct stepscope_hello_position) == 16, "layout is a contract");
_Static_assert(sizeof(struct stepscope_hello_reply) == 40, "layout is a contract");
#endif

#endif /* STEPSCOPE_CONTRACT_HELLO_H_ */
