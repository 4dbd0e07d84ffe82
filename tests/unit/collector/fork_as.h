// SPDX-License-Identifier: Apache-2.0
// fork() under a process id of the caller's choice: how tests reuse the id of a process that has ended.
#pragma once

#include <linux/sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace stepscope {

/// fork(); the child has the id `wanted`, which takes CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE, or any for 0. Waits while the id
/// is still the process group of somebody. -1 with errno.
inline pid_t ForkAs(pid_t wanted) {
  if (wanted == 0) return fork();
  clone_args args{};
  args.exit_signal = SIGCHLD;
  args.set_tid = reinterpret_cast<uint64_t>(&wanted);
  args.set_tid_size = 1;
  pid_t child = -1;
  for (int tries = 0; tries < 10'000 && child < 0; ++tries) {
    child = static_cast<pid_t>(syscall(SYS_clone3, &args, sizeof(args)));
    if (child >= 0 || errno != EEXIST) break;
    usleep(1000);
  }
  return child;
}

}  // namespace stepscope
