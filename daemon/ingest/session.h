// SPDX-License-Identifier: Apache-2.0
// Session: one recorded process. Takes the bytes of its rings, pushed by its sender or read from its ring file, exactly once.
//
// Positions of a ring
//   stored     what the store has: the only thing that is ever acknowledged
//   delivered  what went to the pipeline; stored <= delivered <= head. New bytes are accepted exactly here: what lies below is
//              cut (it is on its way), what begins above is a hole and refused
//
//            stored        delivered         head
//   ───────────┼───────────────┼───────────────┼────► bytes of the ring
//    acked     │  in pipeline  │ next to take  │
//
// Life: Load → Begin → Push / Drain in any order → Finish (process dead) → over, once the last delivery is stored.
//
// Thread rule: Load and the const getters of identity from the ingest thread before Begin is posted; everything marked [worker]
// on the worker thread only; the rest from any thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/unique_fd.h"
#include "contract/hello.h"
#include "daemon/ingest/ingest_stats.h"
#include "daemon/ingest/peer_process.h"
#include "daemon/ingest/ring_decoder.h"
#include "daemon/ingest/ring_file.h"
#include "daemon/jobs/job_table.h"
#include "daemon/pipeline/clock_registry.h"
#include "daemon/pipeline/delivery.h"
#include "storage/store.h"

namespace stepscope {

struct RingAt {
  uint32_t generation = 0;
  uint64_t position = 0;
};
using RingPositions = std::map<uint32_t, RingAt>;

/// The stream a session's acknowledgements go to.
class AckSink {
 public:
  virtual ~AckSink() = default;
  virtual void Ack(const RingPositions& stored) = 0;
  /// One delivery made from this stream's pushes is stored.
  virtual void Settled() = 0;
  virtual void End(const absl::Status& status) = 0;
};

/// Bytes of one ring as an agent pushes them.
struct RingPiece {
  uint32_t ring = 0;
  uint32_t generation = 0;
  uint64_t from = 0;
  uint64_t to = 0;
  std::string data;
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  struct Parts {
    const Store* store;
    DeliverySink* sink;
    ClockRegistry* clocks;
    SessionJobs* jobs;
    const InnerTids* tids;
    std::shared_ptr<IngestStats> stats;
    std::function<void(const std::shared_ptr<Session>&)> over;  ///< last delivery stored; on the pipeline thread
  };
  enum class Taken { kDelivered, kKnown };

  Session(Parts parts, SessionIdentity identity, PeerProcess peer, int32_t inner_pid, RingFile file);

  /// Reads where the store stands.
  absl::Status Load();
  /// [worker] Tells what Load found missing.
  void Begin();
  /// [worker] Takes pushed bytes. FAILED_PRECONDITION for a hole, INVALID_ARGUMENT for a piece that makes no sense,
  /// UNAVAILABLE when the pipeline is stopping.
  absl::StatusOr<Taken> Push(RingPiece piece, const std::shared_ptr<AckSink>& origin);
  /// [worker] Reads everything committed that was not delivered. `all` = also slots that were never used.
  void Drain(bool all = false);
  /// [worker] A look each poll: drains, unless the sender brings much. `now_ns` is node time.
  void Poll(int64_t now_ns);
  /// [worker] The process is dead (or executed another image): last drain, losses not told, spans left open. Once.
  void Finish();
  bool finished() const { return finished_; }  ///< [worker]

  /// A newer session of the same process exists: this one ends when its sender is silent.
  void Supersede() { superseded_ = true; }  ///< [worker]

  const SessionIdentity& identity() const { return identity_; }
  const PeerProcess& peer() const { return peer_; }
  bool SameFile(const RingFile& file) const { return file_.SameFile(file); }
  /// What the store has, for a hello's reply.
  std::vector<stepscope_hello_position> StoredPositions() const;
  RingPositions Stored() const;

  /// The connection and stream that replace the ones before.
  void Connect(unique_fd connection);
  void Attach(std::shared_ptr<AckSink> stream);
  void Detach(const AckSink* stream);
  void Disconnect(const absl::Status& status);

  uint64_t delivered_count() const { return delivered_count_; }  ///< [worker]
  /// Waits until that many deliveries are stored; false after `timeout_ns`.
  bool WaitStored(uint64_t count, int64_t timeout_ns);

 private:
  void StartAt(const stepscope_ring_descriptor& d, uint32_t ring);
  bool Advance(const RingPiece& piece, const std::shared_ptr<AckSink>& origin);
  /// `room` = bytes this pass may still take.
  void DrainRing(uint32_t ring, uint64_t* room);
  bool TakeGeneration(uint32_t ring, uint32_t generation, SessionRows& rows);
  bool Deliver(SessionRows& rows, const std::shared_ptr<AckSink>& origin, bool last);
  void OnStored(const RingPositions& positions, const absl::Status& status, const std::shared_ptr<AckSink>& origin, bool last);
  void TellHeader(const stepscope_ring_header& header);
  void TellUntoldLoss(SessionRows& rows);

  Parts parts_;
  PeerProcess peer_;
  HostTids tids_;
  SessionIdentity identity_;
  int32_t inner_pid_;
  RingFile file_;

  SessionDecoder decoder_;
  RingPositions delivered_;
  std::map<uint32_t, uint64_t> skipped_;  ///< ring → bytes found gone by Load
  bool process_noted_ = false;
  bool finished_ = false;
  bool superseded_ = false;
  bool stopping_ = false;
  uint64_t heartbeat_ = 0;
  int64_t heartbeat_seen_ns_ = 0;
  uint64_t sender_cpu_ns_ = 0;
  uint64_t pushed_bytes_ = 0;  ///< since the last poll, that were new
  uint64_t delivered_count_ = 0;

  mutable std::mutex mu_;  ///< guards what follows
  std::condition_variable stored_changed_;
  RingPositions stored_;
  RingPositions pushed_;  ///< of rings whose pushes are not all acknowledged
  uint64_t stored_count_ = 0;
  std::shared_ptr<AckSink> stream_;
  unique_fd connection_;
};

}  // namespace stepscope
