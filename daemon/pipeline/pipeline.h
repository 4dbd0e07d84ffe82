// SPDX-License-Identifier: Apache-2.0
// Pipeline: from batches to sealed blocks. One thread takes deliveries from a bounded queue, runs each batch through the stages
// (a list that can be printed) and seals: all open blocks, their names, entities, roll-ups, totals, and the ring positions they
// consumed become one WriteBatch.
//
//   Deliver() ─ queue ─► validate → place → intern → rollup → append ─► seal ─► Store::Commit ─► on_stored callbacks
//
// A seal happens 250 ms after its first row (500 ms while nobody watches), when a block is full, when a ring's unacknowledged
// bytes reach half of it, or on Drain(). A failed commit, or a disk with too little room, keeps everything in memory and is tried
// again each second; nothing is acknowledged meanwhile, the queue fills, and sources are held back: they count what they cannot
// keep.
//
// Thread rule: Deliver, Drain and the reading interfaces from any thread; callbacks run on the pipeline thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "daemon/pipeline/clock_registry.h"
#include "daemon/pipeline/delivery.h"
#include "daemon/pipeline/run_state.h"
#include "daemon/pipeline/run_totals.h"
#include "daemon/pipeline/table_reader.h"

namespace stepscope {

class Pipeline final : public DeliverySink, public LiveRows, public RunDictionary, public TotalsSource {
 public:
  struct Options {
    int64_t seal_after_ns = 250 * kNsPerMillisecond;
    int64_t quiet_seal_after_ns = 500 * kNsPerMillisecond;  ///< while nobody watches
    int64_t sync_after_ns = 400 * kNsPerMillisecond;        ///< since the last time, by the seal that comes then
    size_t queue_rows = 1 << 20;                            ///< rows that may wait in the queue
    uint64_t seal_ring_bytes = 128 << 10;                   ///< of one ring, not yet acknowledged
    /// Called before a commit of so many bytes, with no mutex held; may wait until there is room. May be empty.
    std::function<void(uint64_t bytes)> admit = {};
    /// A row for every seal, given the moment of its last delivery: what was delivered before then is stored with it. None = no
    /// row.
    std::function<MetaRow(NodeTime)> sign_of_life = {};
    std::function<bool()> watched = [] { return true; };  ///< whether somebody reads rows as they come
    std::function<absl::Status()> room = {};              ///< asked before each commit, an error holds it back; none = always
  };
  Pipeline(Store* store, const ClockRegistry* clocks, const Clock* clock, const Options& options);
  ~Pipeline() override;

  void Start();
  /// Seals what is there and joins. Rows delivered before are stored unless the store fails.
  void Stop();
  static std::vector<std::string> StageNames();
  /// Last failure of the store, OK when the last commit worked.
  absl::Status Health() const;
  /// A run is being deleted: drop its memory.
  void Forget(RunId run);
  /// Rows of the run were removed from the store, and loss rows there say so; for Totals(). Called by one thread.
  void NoteEvicted(RunId run);

  bool Deliver(Delivery delivery) override;
  std::vector<LiveBlock> LiveBlocks(RunId run, TableId table) const override;
  std::string Name(RunId run, NameId id) const override;
  EntityInfo Entity(RunId run, EntityId id) const override;
  std::vector<std::pair<EntityId, EntityInfo>> Entities(RunId run) const override;
  std::vector<std::pair<NameId, std::string>> Names(RunId run) const override;
  RunTotals Totals(RunId run) const override;
  /// Returns the error at once while the store cannot be written.
  absl::Status Drain() override;

 private:
  struct Stage;
  static const Stage kStages[];

  void Loop();
  bool WaitForWork(std::deque<Delivery>* work);
  bool MustProcessNow() const;
  void Process(Delivery& delivery);
  absl::Status Validate(Batch& batch);
  absl::Status Place(Batch& batch);
  absl::Status Intern(Batch& batch);
  absl::Status RollUp(Batch& batch);
  absl::Status Append(Batch& batch);
  void NoteLoss(RunId run, LossReason reason, TableId table, uint64_t count);
  void Describe(const EntityNote& note);
  NodeTime SealTime() const;
  bool SealDue(NodeTime now) const;
  void SealAll();
  absl::StatusOr<Seal> BuildSeal();
  absl::Status Commit(const Seal& seal);
  absl::Status SyncIfDue();
  void SetHealth(const absl::Status& health);
  RunState* State(RunId run) const;  ///< loads it on first use; nullptr when the store cannot be read

  Store* const store_;
  const ClockRegistry* const clocks_;
  const Clock* const clock_;
  const Options options_;

  mutable std::mutex queue_mu_;
  std::condition_variable work_ready_;
  std::condition_variable space_ready_;
  std::deque<Delivery> queue_;
  size_t queued_rows_ = 0;
  uint64_t drain_asked_ = 0;
  uint64_t drain_done_ = 0;
  bool stopping_ = false;
  bool has_deadline_ = false;  ///< the thread looks at the queue at its next seal, unasked
  bool stalled_ = false;       ///< the last commit failed

  mutable std::mutex mu_;  ///< guards what follows
  mutable std::map<uint32_t, std::unique_ptr<RunState>> runs_;
  absl::Status health_;

  // Pipeline thread only.
  std::map<std::pair<std::string, uint32_t>, PositionRow> positions_;
  std::map<std::pair<std::string, uint32_t>, uint64_t> stored_positions_;
  std::vector<SessionNameRow> session_names_;
  std::vector<std::function<void(const absl::Status&)>> callbacks_;
  NodeTime first_pending_;
  NodeTime last_delivered_;
  NodeTime last_synced_;
  bool pending_ = false;
  bool ring_waits_ = false;  ///< some ring has seal_ring_bytes and more that are not acknowledged
  NodeTime retry_after_;
  std::thread thread_;
};

}  // namespace stepscope
