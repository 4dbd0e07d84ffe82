// SPDX-License-Identifier: Apache-2.0
// SessionDecoder: from the bytes of a session's rings to rows. The one decoder of pushed and salvaged bytes alike. It does no
// I/O and reads no clock: the same bytes from the same state give the same rows, which tests and the fuzzer rely on.
//
// Rings are decoded on their own, so what crosses rings can arrive in any order:
//   token  its begin waits in the state of the ring it began in, its end (if first) in that of the ring it ended in; whichever
//          comes second makes the row and takes the other out of its ring's state. TakeTouched() names the rings whose state
//          must be stored with the rows.
//   window start() and stop() are a token of their own (kWindowToken).
//
// Thread rule: the session's worker only.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "daemon/ingest/record_walk.h"
#include "daemon/ingest/ring_state.h"
#include "daemon/ingest/session_names.h"
#include "daemon/ingest/session_rows.h"

namespace stepscope {

constexpr uint64_t kWindowToken = UINT64_MAX;
/// An end without its begin is counted as lost after this much time of the session.
constexpr double kTokenEndWaitNs = 10e9;

class SessionDecoder {
 public:
  explicit SessionDecoder(const SessionIdentity* identity) : identity_(identity) {}

  void Restore(uint32_t ring, RingState state);
  void RestoreName(uint32_t ring, uint32_t id, const RingName& name) { names_.Define(ring, id, name); }

  /// Decodes `bytes`, which continue where the last call for `ring` ended. Bytes that are no records are skipped and counted.
  void Decode(uint32_t ring, RingBytes bytes, SessionRows& rows);
  /// The ring has a new owner: spans left open on it are cut at its last reading; tokens stay open.
  void StartGeneration(uint32_t ring, int32_t tid, uint64_t opened_ticks, SessionRows& rows);
  /// Drops the ring counted itself: `records` and `bytes` are totals of its generation.
  void TellRingLoss(uint32_t ring, uint64_t records, uint64_t bytes, uint64_t first_ticks, uint64_t last_ticks,
                    SessionRows& rows);
  /// Records of threads that found no ring, in total.
  void TellNoRingLoss(uint64_t records, uint64_t first_ticks, uint64_t last_ticks, SessionRows& rows);
  /// Bytes of `ring` that are gone for a reason outside its records.
  void TellSkipped(uint32_t ring, LossStage stage, LossReason reason, uint64_t bytes, SessionRows& rows);
  /// The process is gone: what is open ends, cut, at the last reading of any of its rings.
  void Finish(SessionRows& rows);

  const RingState& ring(uint32_t ring) { return rings_[ring]; }
  /// Rings whose state changed since the last call.
  std::set<uint32_t> TakeTouched() { return std::exchange(touched_, {}); }
  uint64_t last_ticks() const { return last_ticks_; }

 private:
  void DecodeRecord(uint32_t ring, RingState& state, const stepscope_record& header, RingBytes record, SessionRows& rows);
  void DefineName(uint32_t ring, const stepscope_record& header, RingBytes record, SessionRows& rows);
  void Begin(RingState& state, const OpenSpan& span, SessionRows& rows);
  void End(uint32_t ring, RingState& state, uint32_t name, uint64_t ticks, SessionRows& rows);
  void Mark(uint32_t ring, const RingState& state, const OpenSpan& span, SessionRows& rows) const;
  void BeginToken(uint32_t ring, uint64_t token, const OpenToken& open, SessionRows& rows);
  void EndToken(uint32_t ring, uint64_t token, uint64_t ticks, SessionRows& rows);
  void Anchor(const stepscope_record_anchor& record, SessionRows& rows);
  void ExpireTokenEnds(uint64_t before_ticks, SessionRows& rows);
  void CloseOpen(uint32_t ring, RingState& state, size_t keep, uint64_t ticks, int64_t flags, SessionRows& rows) const;
  void EmitToken(uint32_t ring, uint64_t token, const OpenToken& open, uint64_t end_ticks, int64_t flags,
                 SessionRows& rows) const;
  void Lose(const RingState& state, LossReason reason, int64_t bytes, SessionRows& rows) const;
  void Saw(RingState& state, uint64_t ticks);

  const SessionIdentity* identity_;
  SessionNames names_;
  std::map<uint32_t, RingState> rings_;
  std::unordered_map<uint64_t, uint32_t> token_rings_;      ///< token → ring whose state holds its begin
  std::unordered_map<uint64_t, uint32_t> token_end_rings_;  ///< token → ring whose state holds its early end
  std::set<uint32_t> touched_;
  std::unordered_set<int32_t> tids_;
  uint64_t last_ticks_ = 0;
};

}  // namespace stepscope
