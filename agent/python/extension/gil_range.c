/* SPDX-License-Identifier: Apache-2.0
 * Where the interpreter keeps its GIL: with it the kernel side tells a wait for the GIL from any other futex wait.
 * Known for CPython 3.11 on 64-bit: the lock words start 360 bytes into _PyRuntime. Later versions moved the GIL into
 * the interpreter state; there the range stays unpublished and such waits show as plain futex waits. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "extension.h"

enum { kGilOffset311 = 360, kGilBytes311 = 208 };

void publish_gil_range(ModuleState* state) {
  if (state->gil_published) return;
  state->gil_published = 1;
  if (sizeof(void*) != 8 || strncmp(Py_GetVersion(), "3.11.", 5) != 0) return;
  const char* runtime = dlsym(RTLD_DEFAULT, "_PyRuntime");
  if (runtime == NULL) return;
  stepscope_publish_gil(runtime + kGilOffset311, runtime + kGilOffset311 + kGilBytes311);
}
