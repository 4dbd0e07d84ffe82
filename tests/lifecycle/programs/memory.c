// SPDX-License-Identifier: Apache-2.0
// Fills its memory cgroup, with pages of a file or with memory of its own, and then annotates from many threads.
//
//   memory file|own MIB THREADS
#include <pthread.h>

#include "ledger.h"

enum { kMib = 1 << 20 };

static void FillWithFile(long mib) {
  char* block = malloc(kMib);
  memset(block, 'x', kMib);
  int fd = open("filler", O_RDWR | O_CREAT, 0644);
  for (long i = 0; i < mib; ++i) {
    if (write(fd, block, kMib) != kMib) Fail("write");
  }
  lseek(fd, 0, SEEK_SET);
  while (read(fd, block, kMib) > 0) continue;
  ftruncate(fd, 4096);
  close(fd);
  free(block);
}

static void FillWithOwn(long mib) { memset(malloc((size_t)mib * kMib), 'x', (size_t)mib * kMib); }

int main(int count, char** arguments) {
  if (count != 4) return 64;
  OpenLedger();
  StartSeries();
  (strcmp(arguments[1], "file") == 0 ? FillWithFile : FillWithOwn)(atol(arguments[2]));
  pthread_t threads[128];
  long wanted = atol(arguments[3]);
  for (long i = 0; i < wanted; ++i) {
    if (pthread_create(&threads[i], NULL, AnnotateForAWhile, NULL) != 0) Fail("no thread");
  }
  AnnotateForAWhile(NULL);
  for (long i = 0; i < wanted; ++i) pthread_join(threads[i], NULL);
  puts("worked");
  NoteState();
  return 11;
}
