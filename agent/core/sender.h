// SPDX-License-Identifier: Apache-2.0
// The one thread of the agent: beats the heart in the ring file, reads the clocks, retires rings of threads that are gone, and
// pushes committed bytes to the daemon, reconnecting for as long as the process lives. It waits in ppoll only and uses no
// allocator. Threads that record never wait for it and never wake it.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdint.h>

#include "agent/core/clock_reading.h"
#include "agent/core/daemon_socket.h"
#include "agent/core/ring_drain.h"
#include "agent/core/ring_file.h"
#include "agent/core/ring_writer.h"
#include "agent/core/state_text.h"
#include "agent/wire/push_stream.h"

namespace stepscope::agent {

// What the sender works on; owned by the session, alive as long as the process.
struct SenderParts {
  RingFile* file;
  RingWriter* writers;  // one per ring slot
  const TickClock* clock;
  const NameTable* names;
  StateText* state;
  const char* socket_path;
  HelloContent hello;
  uint64_t fork_token;
};

class Sender {
 public:
  // `socket` has a hello of this session on its way. False when no thread can be had: then the daemon reads the ring itself.
  bool Start(const SenderParts& parts, DaemonSocket* socket);

  // Asks for a push in the next moment. Any thread; harmless when no sender runs.
  void RequestPush();

  // In a forked child: the thread and its connection belong to the parent. `close_descriptors` is false when they may be shared.
  void AbandonAfterFork(bool close_descriptors);

  // Records lost by ring generations that are over.
  uint64_t past_lost() const { return __atomic_load_n(&past_lost_, __ATOMIC_SEQ_CST); }
  /// Odd while a ring's losses move from its descriptor to past_lost(); another value afterwards.
  uint64_t recycles() const { return __atomic_load_n(&recycles_, __ATOMIC_SEQ_CST); }

 private:
  enum class Link { kDown, kAwaitingReply, kStreaming };

  static void* ThreadMain(void* self);
  bool StartThread();
  void BecomeQuietThread();
  void Run();
  void OncePerSecond(uint64_t now_ns);
  bool HostHasEnded();
  void RetireGoneThreads();
  void RecycleDrainedRings();
  bool AdvanceLink(uint64_t now_ns);
  bool Reconnect(uint64_t now_ns);
  void TakeReply(uint64_t now_ns);
  void Exchange(uint64_t now_ns);
  bool ReceiveAll();
  bool SendAll();
  bool PushDue(uint64_t now_ns);
  void LoseLink(uint64_t now_ns, const char* why, uint64_t least_wait_ns);
  void Wait();
  uint64_t NextDeadline(uint64_t now_ns) const;

  SenderParts parts_ = {};
  DaemonSocket socket_;
  Link link_ = Link::kDown;
  RingDrain drain_;
  PushStream stream_;
  HeldFd wake_receive_;
  HeldFd wake_send_;
  bool push_requested_ = false;  // atomic
  uint64_t past_lost_ = 0;       // atomic
  uint64_t recycles_ = 0;        // atomic

  sigset_t host_mask_ = {};         // of the thread that started this one
  bool main_thread_ended_ = false;  // by pthread_exit, for example: the process goes on for as long as another one runs
  void* arena_memory_ = nullptr;
  const uint8_t* unsent_ = nullptr;  // output of the stream that the socket did not take yet
  long unsent_bytes_ = 0;
  uint64_t next_connect_ns_ = 0;
  uint64_t connect_wait_ns_ = 0;
  uint64_t next_push_ns_ = 0;
  uint64_t next_second_ns_ = 0;
  uint64_t busy_until_ns_ = 0;   // looks at the rings are close together until then
  uint64_t waiting_before_ = 0;  // bytes, at the last look
};

}  // namespace stepscope::agent
