// SPDX-License-Identifier: Apache-2.0
#include "agent/wire/nghttp2_memory.h"

#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "agent/core/clock_reading.h"
#include "agent/core/kernel_call.h"

namespace stepscope::agent {
namespace {
constinit Arena* arena_in_use = nullptr;  // sender thread only
}
void UseArenaForNghttp2(Arena* arena) { arena_in_use = arena; }
}  // namespace stepscope::agent

using stepscope::agent::arena_in_use;

extern "C" {

void* stepscope_host_stderr = nullptr;

void* stepscope_host_malloc(size_t bytes) { return arena_in_use->Allocate(bytes); }
void* stepscope_host_calloc(size_t count, size_t bytes) { return arena_in_use->AllocateZeroed(count, bytes); }
void* stepscope_host_realloc(void* piece, size_t bytes) { return arena_in_use->Reallocate(piece, bytes); }
void stepscope_host_free(void* piece) { arena_in_use->Free(piece); }

// The thread cannot go on and must not take the host with it.
[[noreturn]] static void Park() {
  for (;;) {
    timespec long_time{3600, 0};
    stepscope::agent::KernelCall(SYS_nanosleep, stepscope::agent::PointerArgument(&long_time));
  }
}
[[noreturn]] void stepscope_host_assert_fail(const char*, const char*, unsigned, const char*) { Park(); }
[[noreturn]] void stepscope_host_stack_check_fail() { Park(); }

int stepscope_host_fprintf(void*, int, const char*, ...) { return 0; }
int stepscope_host_vsnprintf(char* out, size_t capacity, int, size_t, const char*, va_list) {
  if (capacity != 0) out[0] = '\0';
  return 0;
}

time_t stepscope_host_time(time_t*) { return static_cast<time_t>(stepscope::agent::ClockNs(CLOCK_REALTIME) / 1000000000u); }

// Insertion sort: nghttp2 sorts a handful of settings and header indices.
void stepscope_host_qsort(void* base, size_t count, size_t width, int (*compare)(const void*, const void*)) {
  auto* bytes = static_cast<uint8_t*>(base);
  for (size_t i = 1; i < count; ++i) {
    for (size_t j = i; j != 0 && compare(bytes + (j - 1) * width, bytes + j * width) > 0; --j) {
      for (size_t b = 0; b < width; ++b) {
        uint8_t kept = bytes[(j - 1) * width + b];
        bytes[(j - 1) * width + b] = bytes[j * width + b];
        bytes[j * width + b] = kept;
      }
    }
  }
}

}  // extern "C"
