// SPDX-License-Identifier: Apache-2.0
// stepscope's public C API. Every call is safe at any time, from any thread, in any process state (after fork, before main, at
// exit), never blocks, never fails loudly and costs a load and a branch while no daemon is listening. Names are UTF-8; invalid
// bytes are replaced, more than 4 KB is cut with a hash suffix. A trailing number after one of "_-:#/. " or in brackets is
// split off: annotate "step_12" is base name "step", number 12 (not when it has leading zeros or more than 18 digits).
#ifndef STEPSCOPE_STEPSCOPE_H_
#define STEPSCOPE_STEPSCOPE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STEPSCOPE_API __attribute__((visibility("default")))

/* Who names a span; the same numbers as span.domain in the span table. */
enum stepscope_domain {
  STEPSCOPE_DOMAIN_USER = 0,
  STEPSCOPE_DOMAIN_STEP = 1,
  STEPSCOPE_DOMAIN_LOADER = 2,
  STEPSCOPE_DOMAIN_OPTIMIZER = 3,
  STEPSCOPE_DOMAIN_FRAMEWORK = 4
};

/* A name interned once per process; cheap to pass around. 0 is "no name" and is ignored by every call. */
typedef struct stepscope_name {
  uint32_t id;
  uint32_t has_number;
  int64_t number;
} stepscope_name;

STEPSCOPE_API stepscope_name stepscope_intern(const char* text, size_t bytes, int domain);

/* Nested spans of the calling thread. stepscope_end closes the innermost open one. */
STEPSCOPE_API void stepscope_begin(stepscope_name name);
STEPSCOPE_API void stepscope_end(void);
/* Closes the innermost open span called `name`; inner ones left open close with it, flagged. Unknown: counted, ignored. */
STEPSCOPE_API void stepscope_end_named(stepscope_name name);
/* Convenience: interns and begins. */
STEPSCOPE_API void stepscope_annotate_begin(const char* text);

/* Overlapping spans: any thread may end a token. A second end of a token is counted and ignored. */
STEPSCOPE_API uint64_t stepscope_token_begin(stepscope_name name);
STEPSCOPE_API void stepscope_token_end(uint64_t token);

STEPSCOPE_API void stepscope_mark(stepscope_name name);
STEPSCOPE_API void stepscope_counter(stepscope_name name, double value);
/* A fact about the job ("lr" = "3e-4"); value cut at 4 KB. */
STEPSCOPE_API void stepscope_info(stepscope_name key, const char* value, size_t bytes);
/* Marks a window. Recording is always on. */
STEPSCOPE_API void stepscope_start(void);
STEPSCOPE_API void stepscope_stop(void);
/* Publishes the address range of the interpreter's GIL words. */
STEPSCOPE_API void stepscope_publish_gil(const void* begin, const void* end);

/* State of the agent in this process, for status displays: a static text such as "recording", "off: no daemon at
 * /run/stepscope/agent.sock", "off: fork guard unsupported by this kernel". Never NULL. */
STEPSCOPE_API const char* stepscope_state(void);
/* Records dropped by this process so far (ring full or no ring). */
STEPSCOPE_API uint64_t stepscope_lost(void);
/* Asks the sender to push now and waits at most timeout_ms for the acknowledgement. 1 = everything of the calling process
 * committed before the call is stored. For tests and orderly ends; never needed for safety. */
STEPSCOPE_API int stepscope_flush(int timeout_ms);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif /* STEPSCOPE_STEPSCOPE_H_ */
