// SPDX-License-Identifier: Apache-2.0
// Works under a resource limit that it sets itself, before or after its first annotation; as another user if it is told to.
//
//   limits RESOURCE VALUE before|after THREADS [UID]    RESOURCE none: no limit
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "ledger.h"

static void SetLimit(char** arguments) {
  static const struct {
    const char* name;
    __rlimit_resource_t resource;
  } kResources[] = {{"as", RLIMIT_AS}, {"fsize", RLIMIT_FSIZE}, {"nofile", RLIMIT_NOFILE}, {"nproc", RLIMIT_NPROC}};
  for (size_t i = 0; i < sizeof(kResources) / sizeof(kResources[0]); ++i) {
    if (strcmp(kResources[i].name, arguments[0]) != 0) continue;
    struct rlimit limit = {(rlim_t)atol(arguments[1]), (rlim_t)atol(arguments[1])};
    if (prlimit(0, kResources[i].resource, &limit, NULL) != 0) Fail("prlimit");
  }
}

/* What a host sees of its limits: numbers of descriptors it gets, how a file it may not write fails. */
static void TellWhatHappens(void) {
  for (int i = 0; i < 4; ++i) {
    int fd = open("written", O_WRONLY | O_CREAT | O_APPEND, 0644);
    printf("open: %d %s\n", fd, fd < 0 ? strerror(errno) : "");
  }
  void* memory = malloc(4 << 20);
  printf("malloc: %s\n", memory != NULL ? "yes" : "no");
}

int main(int count, char** arguments) {
  if (count < 5) return 64;
  OpenLedger();
  StartSeries();
  if (count > 5 && (setresgid(65534, 65534, 65534) != 0 ||
                    setresuid((uid_t)atol(arguments[5]), (uid_t)atol(arguments[5]), (uid_t)atol(arguments[5])) != 0))
    Fail("setresuid");
  if (strcmp(arguments[3], "before") == 0) SetLimit(arguments + 1);
  AnnotateTimes(100);
  if (strcmp(arguments[3], "after") == 0) SetLimit(arguments + 1);
  TellWhatHappens();
  long started = 0;
  pthread_t threads[64];
  while (started < atol(arguments[4])) {
    if (pthread_create(&threads[started], NULL, AnnotateForAWhile, NULL) != 0) break;
    ++started;
  }
  AnnotateForAWhile(NULL);
  for (long i = 0; i < started; ++i) pthread_join(threads[i], NULL);
  printf("%ld threads\n", started);
  NoteState();
  return 5;
}
