// SPDX-License-Identifier: Apache-2.0
// The agent's one object in a process: which ring the calling thread writes to, and everything that happens once: opening the
// session with the first record, giving rings to threads, starting over in a forked child.
//
//   kIdle ──first record──► kOpening ──hello queued──► kOpen
//                 ▲             └────no daemon, no memory──► kOff ──a later record, at most once a second──► kOpening
//                 └── any fork: the child starts here
//
// Every call is safe from any thread at any time. Only the thread that opens the session makes system calls that could take long
// (a fraction of a millisecond); a thread that comes in meanwhile sleeps until that is done, for a second at the very most (the
// opener waits for nobody, so only a CPU it does not get can take that long), then its record is dropped and counted.
#pragma once

#include <stdint.h>

#include "agent/core/clock_reading.h"
#include "agent/core/daemon_socket.h"
#include "agent/core/fork_guard.h"
#include "agent/core/name_table.h"
#include "agent/core/ring_file.h"
#include "agent/core/ring_writer.h"
#include "agent/core/sender.h"
#include "agent/core/state_text.h"

namespace stepscope::agent {

class Session {
 public:
  // Before the first record, from the library's constructor; also called by a record that comes earlier.
  void Prepare();

  // The ring of the calling thread, or nullptr: then the record is dropped, and counted: for Lost() at once, in the ring file's
  // books as soon as there is a session.
  RingWriter* ThreadRing() {
    RingWriter* writer = thread_writer_;
    if (writer != nullptr && writer->fork_token() == guard_.Token()) [[likely]]
      return writer;
    return SlowThreadRing();
  }

  uint64_t Ticks() const { return clock_.Read(); }
  NameTable& names() { return names_; }
  uint64_t NextToken() { return __atomic_add_fetch(&last_token_, 1, __ATOMIC_RELAXED); }
  void CountDropped();

  const char* State() const { return state_.Get(); }
  uint64_t Lost() const;
  bool Flush(int timeout_ms);

 private:
  enum Phase : uint32_t { kIdle, kOpening, kOpen, kOff };
  enum class Copy { kForked, kUnannounced };  // the child handler ran; it did not (raw clone)

  static void OnForkInChild();
  static void OnThreadExit(void* writer);

  Phase phase() const { return static_cast<Phase>(__atomic_load_n(&phase_, __ATOMIC_ACQUIRE)); }
  void SetPhase(Phase phase) { __atomic_store_n(&phase_, static_cast<uint32_t>(phase), __ATOMIC_SEQ_CST); }

  // Open, and by this very process: a copy made by a raw clone still says kOpen, but the ring file is not in its memory.
  bool Usable() const { return guard_.Token() > ForkGuard::kBeingRenewed && phase() == kOpen; }

  RingWriter* SlowThreadRing();
  bool Ready();
  bool Open(Phase from);
  bool ConnectAndSendHello();
  bool MakeRingFile();
  bool WaitWhileOpening();
  void CountEarlyDrops();
  void TurnOff();
  void StartSender();
  RingWriter* AcquireRing();
  void StartOver(Copy copy);
  void SetSocketPath(const char* folder, const char* name);
  bool SetPrivateSocketPath();
  long Connect();
  HelloContent Hello() const;

  static thread_local constinit RingWriter* thread_writer_;  // the agent's only thread-local, initial-exec

  ForkGuard guard_;
  TickClock clock_;
  NameTable names_;
  StateText state_;
  uint32_t prepared_ = 0;   // atomic
  uint32_t phase_ = kIdle;  // atomic
  bool never_ = false;      // off for good
  bool has_exit_key_ = false;
  bool has_parent_ = false;
  unsigned exit_key_ = 0;
  uint64_t last_token_ = 0;         // atomic
  uint64_t early_dropped_ = 0;      // atomic; before there was a ring file to count in
  uint64_t early_first_ticks_ = 0;  // atomic; of the first of them, 0: none
  int32_t opener_tid_ = 0;          // atomic
  uint64_t next_try_ns_ = 0;        // atomic
  uint64_t try_wait_ns_ = 0;
  uint64_t opened_ticks_ = 0;
  uint8_t session_id_[16] = {};
  uint8_t parent_session_[16] = {};
  char socket_path_[108] = {};
  RingFile file_;
  RingWriter* writers_ = nullptr;
  DaemonSocket socket_;  // of the opening thread, until the sender has it
  Sender sender_;
};

extern constinit Session g_session;

}  // namespace stepscope::agent
