// SPDX-License-Identifier: Apache-2.0
// Closes descriptors that it never opened and opens files of its own under their numbers, several times in each of its children,
// whose threads annotate meanwhile. What it wrote is compared by the test; what it still has open it checks itself.
//
//   descriptors WAY ROUNDS
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "ledger.h"

enum { kFirst = 3, kLast = 1100, kFirstHigh = 505, kLastHigh = 530, kPasses = 5, kThreads = 3, kPauseUs = 50 };

static long current_round;

static void CloseRange(void) {
#ifdef SYS_close_range
  if (syscall(SYS_close_range, kFirst, ~0u, 0) == 0) return;
#endif
  for (int fd = kFirst; fd < kLast; ++fd) close(fd);
}

static void CloseOneByOne(void) {
  for (int fd = kFirst; fd < kLast; ++fd) close(fd);
}

static void CloseNothing(void) {}

static int OpenOwn(int number) {
  char name[48];
  snprintf(name, sizeof(name), "round%ld_file%d", current_round, number);
  return open(name, O_RDWR | O_CREAT | O_APPEND, 0644);
}

/* Own files under the numbers around 512, where the agent keeps its descriptors: closed and replaced at once by dup2. */
static void TakeHighNumbers(void) {
  for (int number = kFirstHigh; number < kLastHigh; ++number) {
    int fd = OpenOwn(number);
    if (fd < 0 || dup2(fd, number) != number) Fail("dup2");
    if (fd != number) close(fd);
  }
}

/* And under low numbers, as a program gets them by opening files. */
static void TakeLowAndHighNumbers(void) {
  for (int i = 0; i < 60; ++i) {
    int fd = OpenOwn(i);
    if (fd < 0 || write(fd, "low\n", 4) != 4) Fail("open");
  }
  TakeHighNumbers();
}

static int LineOf(int number, int pass, char line[64]) {
  return snprintf(line, 64, "round %ld number %d pass %02d\n", current_round, number, pass);
}

static void CheckOwn(int number, int lines) {
  char line[64];
  struct stat file;
  if (fstat(number, &file) != 0) {
    printf("round %ld: descriptor %d was closed\n", current_round, number);
  } else if (file.st_size != lines * LineOf(number, 0, line)) {
    printf("round %ld: descriptor %d has %ld bytes\n", current_round, number, (long)file.st_size);
  }
}

static void WriteOwn(int pass) {
  for (int number = kFirstHigh; number < kLastHigh; ++number) {
    char line[64];
    int bytes = LineOf(number, pass, line);
    if (write(number, line, (size_t)bytes) != bytes) printf("round %ld: descriptor %d: %m\n", current_round, number);
  }
  Annotate();
  usleep(1000);
  for (int number = kFirstHigh; number < kLastHigh; ++number) CheckOwn(number, pass + 1);
}

static void* AnnotateShortly(void* unused) {
  (void)unused;
  StartSeries();
  AnnotateTimes(3);
  return NULL;
}

/* New threads all the time: each asks for the memory of a ring. */
static void* StartThreads(void* unused) {
  (void)unused;
  for (;;) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, AnnotateShortly, NULL) == 0) pthread_join(thread, NULL);
    usleep(1000);
  }
  return NULL;
}

static void BeChild(void (*close_all)(void), void (*take)(void)) {
  StartSeries();
  AnnotateTimes(3);
  for (int i = 0; i < kThreads; ++i) {
    pthread_t thread;
    pthread_create(&thread, NULL, i == 0 ? StartThreads : AnnotateForever, (void*)kPauseUs);
  }
  usleep((useconds_t)(current_round % 40 * 100));
  for (int pass = 0; pass < kPasses; ++pass) {
    close_all();
    take();
    WriteOwn(pass);
  }
  if (current_round % 10 == 4) usleep(1200000); /* the sender's once a second comes by */
  Annotate();
  fflush(stdout);
  _exit(0);
}

int main(int count, char** arguments) {
  static const struct {
    const char* name;
    void (*close_all)(void);
    void (*take)(void);
  } kWays[] = {{"close_range", CloseRange, TakeHighNumbers},
               {"close_loop", CloseOneByOne, TakeLowAndHighNumbers},
               {"dup2", CloseNothing, TakeHighNumbers}};
  if (count != 3) return 64;
  OpenLedger();
  StartSeries();
  Annotate();
  for (size_t i = 0; i < sizeof(kWays) / sizeof(kWays[0]); ++i) {
    if (strcmp(kWays[i].name, arguments[1]) != 0) continue;
    for (current_round = 0; current_round < atol(arguments[2]); ++current_round) {
      pid_t pid = fork();
      if (pid == 0) BeChild(kWays[i].close_all, kWays[i].take);
      int status = 0;
      waitpid(pid, &status, 0);
      if (status != 0) printf("round %ld: wait status %#x\n", current_round, (unsigned)status);
    }
    puts("intact");
    return 0;
  }
  return 64;
}
