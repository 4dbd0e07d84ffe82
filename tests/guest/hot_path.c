// SPDX-License-Identifier: Apache-2.0
// A thread that records while any system call of its own kills the process: the filter is installed on that thread alone, once it
// has recorded a first time. It works until it has made COUNT annotations and the test has set `stop` in the shared file; then it
// spins (ending would be a system call) and another thread ends the process.
//
//   hot_path COUNT PAUSES SHARED_FILE [bite]
// Prints "records R lost L flushed F filtered 0|2 switches S faults P": S are voluntary context switches of that thread under the
// filter, as /proc counts them, `filtered` its mode there. With "bite" it makes one system call, to show that the filter is
// there.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "stepscope/stepscope.h"

struct Shared {  // with the test
  _Atomic uint64_t stop;
  _Atomic uint64_t annotations;
};

static struct Shared* shared;
static uint64_t wanted, pauses;
static int bite;
static uint64_t records;  // spans count twice: begin and end
static _Atomic int tid, go, finished;

static void KillOnAnySystemCall(void) {
  struct sock_filter kill_always[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
  struct sock_fprog program = {1, kill_always};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) _exit(3);
}

static void Relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  __asm__ volatile("yield");
#endif
}

static void Pause(void) {
  for (uint64_t i = 0; i < pauses; ++i) Relax();
}

// Spans: these balance against the rows of the store, whatever is dropped.
static void Annotate(stepscope_name step, uint64_t n) {
  step.has_number = 1;
  step.number = (int64_t)n;
  stepscope_begin(step);
  stepscope_end();
  records += 2;
  if (n % 16 != 0) return;
  stepscope_annotate_begin("known text");
  stepscope_end_named(stepscope_intern("known text", 10, STEPSCOPE_DOMAIN_USER));
  records += 2;
}

// The other calls, while there is room: 3 rows of the span table a round.
static void UseTheOtherCalls(stepscope_name key) {
  for (int i = 0; i < 8; ++i) {
    stepscope_mark(key);
    stepscope_counter(key, i);
    stepscope_token_end(stepscope_token_begin(key));
    stepscope_info(key, "value", 5);
    stepscope_start();
    stepscope_stop();
  }
  stepscope_publish_gil(&tid, &tid + 1);
  if (stepscope_lost() != 0 || strcmp(stepscope_state(), "recording") != 0) __builtin_trap();
}

static void* Record(void* unused) {
  (void)unused;
  stepscope_name step = stepscope_intern("step", 4, STEPSCOPE_DOMAIN_USER);
  stepscope_name other = stepscope_intern("other", 5, STEPSCOPE_DOMAIN_USER);
  Annotate(step, 0);
  for (int wait = 0; wait < 1000 && strcmp(stepscope_state(), "recording") != 0; ++wait) usleep(10000);
  atomic_store(&tid, (int)syscall(SYS_gettid));
  KillOnAnySystemCall();
  atomic_store(&go, 1);
  while (atomic_load(&go) != 2) Relax();
  if (bite) syscall(SYS_getppid);
  UseTheOtherCalls(other);
  for (uint64_t n = 1; n < wanted || atomic_load(&shared->stop) == 0; ++n) {
    Annotate(step, n);
    atomic_store_explicit(&shared->annotations, n, memory_order_relaxed);
    Pause();
  }
  atomic_store(&finished, 1);
  for (;;) Relax();
  return NULL;
}

// A number of /proc/self/task/TID/status.
static long Status(const char* key) {
  char path[64], line[256];
  snprintf(path, sizeof(path), "/proc/self/task/%d/status", atomic_load(&tid));
  FILE* file = fopen(path, "re");
  long value = -1;
  while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
    if (strncmp(line, key, strlen(key)) == 0) value = atol(line + strlen(key));
  }
  if (file != NULL) fclose(file);
  return value;
}

// Page faults of that thread so far: all that can make it wait without a system call.
static unsigned long Faults(void) {
  char path[64], line[512] = "";
  snprintf(path, sizeof(path), "/proc/self/task/%d/stat", atomic_load(&tid));
  FILE* file = fopen(path, "re");
  if (file == NULL) return 0;
  const char* after_name = fgets(line, sizeof(line), file) != NULL ? strrchr(line, ')') : NULL;
  fclose(file);
  unsigned long minor = 0, major = 0;
  if (after_name != NULL) sscanf(after_name, ") %*c %*d %*d %*d %*d %*d %*u %lu %*u %lu", &minor, &major);
  return minor + major;
}

int main(int count, char** arguments) {
  if (count < 4) return 2;
  wanted = strtoull(arguments[1], NULL, 10);
  pauses = strtoull(arguments[2], NULL, 10);
  bite = count > 4;
  int fd = open(arguments[3], O_RDWR | O_CLOEXEC);
  shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  pthread_t thread;
  if (shared == MAP_FAILED || pthread_create(&thread, NULL, Record, NULL) != 0) return 1;
  while (atomic_load(&go) == 0) usleep(1000);
  const long switches = Status("voluntary_ctxt_switches:");
  const unsigned long faults = Faults();
  const long filtered = Status("Seccomp:");
  atomic_store(&go, 2);
  while (atomic_load(&finished) == 0) usleep(1000);
  const long after = Status("voluntary_ctxt_switches:");
  const unsigned long faults_after = Faults();
  const int flushed = stepscope_flush(60000);
  printf("records %llu lost %llu flushed %d filtered %ld switches %ld faults %lu\n", (unsigned long long)records,
         (unsigned long long)stepscope_lost(), flushed, filtered, after - switches, faults_after - faults);
  fflush(stdout);
  _exit(0);
}
