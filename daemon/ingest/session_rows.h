// SPDX-License-Identifier: Apache-2.0
// SessionRows: collects what one decoding step of a session yields and hands it over as the parts of one Delivery. It adds the
// identities (run, clock, host pid, start time, host tid) that ring records do not carry.
//
// Times are readings of the session's clock. A span or loss row holds the reading at its END in column kDur until the place
// stage (pipeline/place.h) maps both.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/ingest/session_names.h"
#include "daemon/jobs/job_table.h"
#include "daemon/pipeline/clock_registry.h"
#include "daemon/pipeline/delivery.h"

namespace stepscope {

/// Who a session is, as the daemon knows it.
struct SessionIdentity {
  std::string session;  ///< 16 bytes
  RunId run;
  ClockId clock;
  uint32_t clock_kind = 0;      ///< hello.h
  double ns_per_tick = 1.0;     ///< for error bounds only; times go through the ClockRegistry
  int64_t clock_offset_ns = 0;  ///< node time minus the process's CLOCK_MONOTONIC
  ProcessKey process;
  /// Host tid of an innermost one; a negative number where it is not known any more.
  std::function<int32_t(int32_t)> host_tid = [](int32_t tid) { return tid; };
  /// A thread with that innermost tid took a ring: what host_tid said of an earlier one is over.
  std::function<void(int32_t)> thread_began = [](int32_t) {};
};

struct SpanRow {
  int32_t tid = 0;  ///< innermost
  uint64_t begin_ticks = 0;
  uint64_t end_ticks = 0;
  const std::string* name = nullptr;
  int64_t domain = 0;
  int64_t number = 0;
  bool has_number = false;
  int64_t depth = 0;
  uint64_t token = 0;
  int64_t flags = 0;
};

struct LossRow {
  int32_t tid = 0;  ///< innermost; 0 = the process
  uint64_t first_ticks = 0;
  uint64_t last_ticks = 0;
  LossStage stage = LossStage::kIngest;
  LossReason reason = LossReason::kMalformed;
  int64_t count = 0;
  int64_t bytes = 0;
};

struct AnchorRow {
  uint64_t ticks = 0;
  uint64_t ticks_width = 0;
  int64_t monotonic_ns = 0;
  int64_t realtime_ns = 0;
};

class SessionRows {
 public:
  explicit SessionRows(const SessionIdentity* identity);

  void Add(const SpanRow& row);
  void Add(const LossRow& row);
  void Add(const AnchorRow& row);
  void AddCounter(uint64_t ticks, const std::string* metric, int64_t value_bits);
  void NoteThread(int32_t tid, std::string comm);
  void NoteProcess(std::string command, int32_t rank, int32_t inner_pid);
  void NoteGil(AddressRange gil);

  std::vector<SessionNameRow> names;                       ///< new dictionary entries
  std::vector<std::pair<std::string, std::string>> facts;  ///< of the job
  std::vector<AnchorRow> anchors;                          ///< to be given to the ClockRegistry before Take()'s rows are placed
  uint64_t records = 0;
  uint64_t malformed = 0;

  bool empty() const;
  /// Moves batches, notes and names out.
  Delivery Take();

 private:
  /// A batch being filled, with its dictionaries indexed.
  struct Table {
    Batch batch;
    absl::flat_hash_map<const std::string*, uint32_t> names;
    absl::flat_hash_map<const std::string*, uint32_t> metrics;
    absl::flat_hash_map<int32_t, uint32_t> threads;
  };
  Table Open(TableId table) const;
  uint32_t NameIn(Table& table, const std::string* text) const;
  uint32_t ThreadIn(Table& table, int32_t tid) const;
  EntityKey ThreadKey(int32_t tid) const;
  EntityKey ProcessEntity() const;

  const SessionIdentity* identity_;
  Table spans_;
  Table counters_;
  Table losses_;
  Table clock_samples_;
  std::vector<EntityNote> notes_;
};

}  // namespace stepscope
