/* SPDX-License-Identifier: Apache-2.0
 * Where the interpreter keeps its GIL: with it the kernel side tells a wait for the GIL from any other futex wait.
 * Known for CPython 3.11 on 64-bit: the lock words start 360 bytes into _PyRuntime. Later versions moved the GIL into
 * the interpreter state; there the range stays unpublished and such waits show as plain futex waits. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "extension.h"

enum { kGilOffset311 = 360, kGilBytes311 = 208 };

int gil_range_published = 0;

static void forget_in_child(void) { gil_range_published = 0; }

void watch_forks_for_gil_range(void) {
  static int watching = 0;
  if (watching) return;
  watching = 1;
  pthread_atfork(NULL, NULL, forget_in_child);
}

void publish_gil_range(void) {
  gil_range_published = 1;
  if (sizeof(void*) != 8 || strncmp(Py_GetVersion(), "3.11.", 5) != 0) return;
  const char* runtime = dlsym(RTLD_DEFAULT, "_PyRuntime");
  if (runtime == NULL) return;
  stepscope_publish_gil(runtime + kGilOffset311, runtime + kGilOffset311 + kGilBytes311);
}
