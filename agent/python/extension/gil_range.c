/* SPDX-License-Identifier: Apache-2.0
 * Where the interpreter keeps its GIL: with it the kernel side tells a wait for the GIL from any other futex wait.
 *
 * The main interpreter's lock lies inside _PyRuntime and begins, in every release from 3.10 to 3.13, with
 * (Python/ceval_gil.c, struct _gil_runtime_state):
 *   unsigned long interval; PyThreadState* last_holder; int locked; unsigned long switch_number; cond; mutex; …
 * Its offset differs between releases, so it is looked for by what it must hold while the caller has the GIL. If not exactly
 * one place fits (free-threaded build, subinterpreter with a lock of its own, other layout), the range stays unpublished and
 * such waits show as plain futex waits. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "extension.h"

enum { kGilBytes = 208, kMaxSwitchIntervalUs = 60 * 1000 * 1000 };

/* The first words of the lock, as compiled on 64-bit. */
typedef struct {
  uint64_t interval_us;
  const void* last_holder;
  int32_t locked;
  int32_t pad;
  uint64_t switch_number;
} GilHead;

int gil_range_published = 0;

static void forget_in_child(void) { gil_range_published = 0; }

void watch_forks_for_gil_range(void) {
  static int watching = 0;
  if (watching) return;
  watching = 1;
  pthread_atfork(NULL, NULL, forget_in_child);
}

/* _PyRuntime with its size as the symbol table gives it; NULL if the interpreter does not show it. */
static const char* find_runtime(size_t* size_bytes) {
  const char* runtime = dlsym(RTLD_DEFAULT, "_PyRuntime");
  Dl_info info;
  const ElfW(Sym)* symbol = NULL;
  if (runtime == NULL || !dladdr1(runtime, &info, (void**)&symbol, RTLD_DL_SYMENT)) return NULL;
  if (symbol == NULL || info.dli_saddr != runtime) return NULL;
  *size_bytes = symbol->st_size;
  return runtime;
}

/* The one place in [begin, begin + size) that reads as a lock held by `holder`; NULL for none or several. */
static const char* find_gil(const char* begin, size_t size_bytes, const void* holder) {
  const char* found = NULL;
  for (size_t at = 0; at + kGilBytes <= size_bytes; at += sizeof(uint64_t)) {
    GilHead head;
    memcpy(&head, begin + at, sizeof(head));
    if (head.last_holder != holder || head.locked != 1 || head.switch_number == 0) continue;
    if (head.interval_us == 0 || head.interval_us > kMaxSwitchIntervalUs) continue;
    if (found != NULL) return NULL;
    found = begin + at;
  }
  return found;
}

void publish_gil_range(void) {
  gil_range_published = 1;
  if (sizeof(void*) != 8) return;
  size_t size_bytes = 0;
  const char* runtime = find_runtime(&size_bytes);
  const char* gil = runtime == NULL ? NULL : find_gil(runtime, size_bytes, PyThreadState_Get());
  if (gil != NULL) stepscope_publish_gil(gil, gil + kGilBytes);
}
