// SPDX-License-Identifier: Apache-2.0
#include "daemon/pipeline/pipeline.h"

#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/status.h"
#include "daemon/pipeline/place.h"
#include "storage/keys.h"
#include "trace/block.h"

namespace stepscope {
namespace {

constexpr int64_t kRetryNs = kNsPerSecond;
constexpr size_t kMostStoredPositions = 1 << 16;
constexpr size_t kRowsThatWait = 4096;  // for a seal; about what the records of half a ring become
constexpr int64_t kFutureNs = 3600 * kNsPerSecond;

size_t RowsOf(const Delivery& delivery) {
  size_t rows = 1;
  for (const Batch& batch : delivery.batches) rows += batch.rows();
  return rows;
}

/// Indices of a local dictionary become ids of the run; 0 for what points outside it.
template <typename Id>
void ToIds(const std::vector<Id>& ids, std::vector<int64_t>& column) {
  for (int64_t& value : column) {
    const auto index = static_cast<size_t>(value);
    value = value >= 0 && index < ids.size() ? ids[index].value : 0;
  }
}

}  // namespace

struct Pipeline::Stage {
  const char* name;
  absl::Status (Pipeline::*run)(Batch&);
};

const Pipeline::Stage Pipeline::kStages[] = {
    {"validate", &Pipeline::Validate}, {"place", &Pipeline::Place},   {"intern", &Pipeline::Intern},
    {"rollup", &Pipeline::RollUp},     {"append", &Pipeline::Append},
};

Pipeline::Pipeline(Store* store, const ClockRegistry* clocks, const Clock* clock, const Options& options)
    : store_(store), clocks_(clocks), clock_(clock), options_(options) {}

Pipeline::~Pipeline() { Stop(); }

std::vector<std::string> Pipeline::StageNames() {
  std::vector<std::string> names;
  for (const Stage& stage : kStages) names.emplace_back(stage.name);
  names.emplace_back("seal");
  return names;
}

void Pipeline::Start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "pipeline");
    Loop();
  });
}

void Pipeline::Stop() {
  {
    const std::lock_guard lock(queue_mu_);
    stopping_ = true;
  }
  work_ready_.notify_all();
  space_ready_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool Pipeline::Deliver(Delivery delivery) {
  const size_t rows = RowsOf(delivery);
  std::unique_lock lock(queue_mu_);
  space_ready_.wait(lock, [&] { return stopping_ || queued_rows_ == 0 || queued_rows_ + rows <= options_.queue_rows; });
  if (stopping_) return false;
  queued_rows_ += rows;
  delivery.delivered = clock_->Node();
  queue_.push_back(std::move(delivery));
  const bool wake = MustProcessNow();
  lock.unlock();
  if (wake) work_ready_.notify_one();
  return true;
}

absl::Status Pipeline::Drain() {
  std::unique_lock lock(queue_mu_);
  const uint64_t ticket = ++drain_asked_;
  work_ready_.notify_one();
  space_ready_.wait(lock, [&] { return drain_done_ >= ticket || stopping_ || stalled_; });
  lock.unlock();
  return Health();
}

/// Under queue_mu_. What nobody waits for is processed at the next seal.
bool Pipeline::MustProcessNow() const {
  if (queue_.empty()) return false;
  return !has_deadline_ || queued_rows_ >= std::min(kRowsThatWait, options_.queue_rows / 2) || options_.watched();
}

/// Waits until there is work, a seal is due, or the end; false at the end.
bool Pipeline::WaitForWork(std::deque<Delivery>* work) {
  std::unique_lock lock(queue_mu_);
  has_deadline_ = pending_;
  const auto ready = [&] { return stopping_ || MustProcessNow() || drain_asked_ > drain_done_; };
  if (pending_) {
    const int64_t due = std::max(SealTime(), retry_after_) - clock_->Node();
    work_ready_.wait_for(lock, std::chrono::nanoseconds(std::max<int64_t>(due, 0)), ready);
  } else {
    work_ready_.wait(lock, ready);
  }
  work->swap(queue_);
  queued_rows_ = 0;
  space_ready_.notify_all();
  return !stopping_ || !work->empty();
}

void Pipeline::Loop() {
  std::deque<Delivery> work;
  bool more = true;
  while (more) {
    uint64_t ticket = 0;
    {
      const std::lock_guard lock(queue_mu_);
      ticket = drain_asked_;
    }
    more = WaitForWork(&work);
    for (Delivery& delivery : work) {
      Process(delivery);
      if (SealDue(clock_->Node())) SealAll();
    }
    work.clear();
    bool draining = false;
    {
      const std::lock_guard lock(queue_mu_);
      draining = drain_done_ < ticket;
    }
    if (pending_ && (draining || !more || SealDue(clock_->Node()))) SealAll();
    const std::lock_guard lock(queue_mu_);
    drain_done_ = std::max(drain_done_, ticket);
    space_ready_.notify_all();
  }
}

void Pipeline::Process(Delivery& delivery) {
  const std::lock_guard lock(mu_);
  if (!pending_) first_pending_ = clock_->Node();
  pending_ = true;
  last_delivered_ = delivery.delivered;
  for (const EntityNote& note : delivery.notes) Describe(note);
  for (Batch& batch : delivery.batches) {
    for (const Stage& stage : kStages) {
      const absl::Status status = (this->*stage.run)(batch);
      if (status.ok()) continue;
      spdlog::warn("pipeline stage {}: {}", stage.name, std::string(status.message()));
      NoteLoss(batch.run, LossReason::kMalformed, batch.table, batch.rows());
      break;
    }
  }
  for (PositionRow& position : delivery.positions) {
    const std::pair ring(position.session, position.ring);
    const auto stored = stored_positions_.find(ring);
    const bool same = stored != stored_positions_.end() && stored->second <= position.position;
    ring_waits_ |= position.position - (same ? stored->second : 0) >= options_.seal_ring_bytes;
    positions_[ring] = std::move(position);
  }
  std::ranges::move(delivery.session_names, std::back_inserter(session_names_));
  if (delivery.on_stored) callbacks_.push_back(std::move(delivery.on_stored));
}

absl::Status Pipeline::Validate(Batch& batch) {
  const TableSpec* spec = FindTable(batch.table);
  if (spec == nullptr) return absl::InvalidArgumentError("batch of an unknown table");
  if (State(batch.run) == nullptr) return absl::InternalError(fmt::format("run {} cannot be read", batch.run.value));
  if (batch.columns.size() != spec->columns.size()) {
    return absl::InvalidArgumentError(
        fmt::format("{} has {} columns, not {}", spec->name, spec->columns.size(), batch.columns.size()));
  }
  for (const auto& column : batch.columns) {
    if (column.size() != batch.rows()) return absl::InvalidArgumentError("columns of unequal length");
  }
  const auto in_entities = [&](uint32_t lane) { return lane < batch.entities.size(); };
  if (!batch.interned && !std::ranges::all_of(batch.lane, in_entities)) return absl::InvalidArgumentError("lane out of range");
  return absl::OkStatus();
}

absl::Status Pipeline::Place(Batch& batch) {
  if (batch.clock == ClockId{}) return absl::OkStatus();
  // Nothing has happened in the future: a clock that says so is wrong or forged, and each second is a block of its own.
  const size_t unplaceable = PlaceBatch(batch, *clocks_, clock_->Node() + kFutureNs);
  if (unplaceable > 0) NoteLoss(batch.run, LossReason::kUnplaceable, batch.table, unplaceable);
  return absl::OkStatus();
}

absl::Status Pipeline::Intern(Batch& batch) {
  if (batch.interned) return absl::OkStatus();
  RunState& state = *State(batch.run);
  const std::vector<NameId> names = state.names.InternAll(batch.names);
  const std::vector<EntityId> entities = state.entities.InternAll(batch.entities);
  for (uint32_t& lane : batch.lane) lane = entities[lane].value;
  const auto columns = FindTable(batch.table)->columns;
  for (size_t c = 0; c < columns.size(); ++c) {
    if (columns[c].kind == ColumnKind::kName) ToIds(names, batch.columns[c]);
    if (columns[c].kind == ColumnKind::kEntity) ToIds(entities, batch.columns[c]);
  }
  batch.names.clear();
  batch.entities.clear();
  batch.interned = true;
  return absl::OkStatus();
}

absl::Status Pipeline::RollUp(Batch& batch) {
  RunState& state = *State(batch.run);
  state.rollup.Add(batch, [&state](uint32_t lane) { return state.ProcessOf(lane); });
  return absl::OkStatus();
}

absl::Status Pipeline::Append(Batch& batch) {
  RunState& state = *State(batch.run);
  state.open.Add(batch);
  state.totals.tables[batch.table].rows += batch.rows();
  state.totals_dirty = true;
  if (batch.table != TableId::kLoss) return absl::OkStatus();
  const auto& c = batch.columns;
  for (size_t row = 0; row < batch.rows(); ++row) {
    LossAmount& total =
        state.totals.loss[{c[loss_column::kStage][row], c[loss_column::kReason][row], c[loss_column::kTable][row]}];
    const int64_t count = c[loss_column::kCount][row];
    const int64_t bytes = c[loss_column::kBytes][row];
    total.count = count < 0 || total.count < 0 ? -1 : total.count + count;
    total.bytes = bytes < 0 || total.bytes < 0 ? -1 : total.bytes + bytes;
  }
  return absl::OkStatus();
}

/// Rows the pipeline itself could not keep become a loss row like any other.
void Pipeline::NoteLoss(RunId run, LossReason reason, TableId table, uint64_t count) {
  if (count == 0 || State(run) == nullptr) return;
  Batch loss = Batch::For(TableId::kLoss, run);
  const uint32_t node = loss.LocalEntity({EntityKind::kNode, 0, 0, 0, ""});
  loss.Append(node, {clock_->Node().ns, 0, static_cast<int64_t>(LossStage::kPipeline), -1, static_cast<int64_t>(reason),
                     static_cast<int64_t>(table), static_cast<int64_t>(count), -1});
  Intern(loss).IgnoreError();  // a batch made here is well-formed
  RollUp(loss).IgnoreError();
  Append(loss).IgnoreError();
}

void Pipeline::Describe(const EntityNote& note) {
  RunState* state = State(note.run);
  if (state == nullptr) return;
  const EntityId id = state->entities.Intern(note.key);
  EntityAttributes attributes = state->entities.Find(id).attributes;
  if (!note.name.empty()) attributes.display = note.name;
  if (note.rank >= 0) attributes.rank = note.rank;
  if (note.inner_id > 0) attributes.inner_ids = {note.inner_id};
  if (!note.gil.empty()) attributes.gil = note.gil;
  state->entities.Describe(id, attributes);
}

NodeTime Pipeline::SealTime() const {
  return first_pending_ +
         (options_.watched() ? options_.seal_after_ns : std::max(options_.seal_after_ns, options_.quiet_seal_after_ns));
}

bool Pipeline::SealDue(NodeTime now) const {
  if (!pending_ || now < retry_after_) return false;
  if (ring_waits_ || now >= SealTime()) return true;
  const std::lock_guard lock(mu_);
  return std::ranges::any_of(runs_, [](const auto& run) { return run.second->open.AnyFull(); });
}

absl::StatusOr<Seal> Pipeline::BuildSeal() {
  Seal seal;
  for (auto& [run, state] : runs_) {
    for (const auto& [key, rows] : state->open.All()) {
      STEPSCOPE_ASSIGN_OR_RETURN(std::string bytes, EncodeBlock(*rows));
      state->totals.tables[key.table].stored_bytes += bytes.size();
      seal.blocks.push_back({key, std::move(bytes)});
    }
    for (auto& name : state->names.TakeNew()) seal.names.push_back({RunId{run}, name.id, std::move(name.text)});
    for (const auto& [id, entity] : state->entities.TakeNew()) {
      seal.meta.push_back({RunMetaKind("entity", RunId{run}), EntityMetaId(id), EncodeEntity(entity)});
    }
    for (RollupRow& row : state->rollup.Dirty()) seal.rollups.push_back(std::move(row));
    if (state->totals_dirty) seal.meta.push_back({"totals", RunMetaId(RunId{run}), EncodeTotals(state->totals)});
    state->totals_dirty = false;
  }
  for (const auto& [key, row] : positions_) seal.positions.push_back(row);
  seal.session_names = session_names_;
  if (options_.sign_of_life) seal.meta.push_back(options_.sign_of_life(last_delivered_));
  return seal;
}

absl::Status Pipeline::Commit(const Seal& seal) {
  if (options_.room) STEPSCOPE_RETURN_IF_ERROR(options_.room());
  STEPSCOPE_RETURN_IF_ERROR(store_->Commit(seal));
  return SyncIfDue();
}

/// What is on the disk when the power goes is at most the time between two seals and this old.
absl::Status Pipeline::SyncIfDue() {
  const NodeTime now = clock_->Node();
  if (now - last_synced_ < options_.sync_after_ns) return absl::OkStatus();
  last_synced_ = now;
  return store_->Sync();
}

void Pipeline::SetHealth(const absl::Status& health) {
  {
    const std::lock_guard lock(mu_);
    health_ = health;
  }
  const std::lock_guard lock(queue_mu_);
  stalled_ = !health.ok();
  if (stalled_) space_ready_.notify_all();
}

void Pipeline::SealAll() {
  std::unique_lock lock(mu_);
  absl::StatusOr<Seal> seal = BuildSeal();
  lock.unlock();
  if (!seal.ok()) {
    SetHealth(seal.status());
    retry_after_ = clock_->Node() + kRetryNs;
    spdlog::error("seal: {}", std::string(seal.status().message()));
    return;
  }
  if (options_.admit) {
    uint64_t bytes = 0;
    for (const SealedBlock& block : seal->blocks) bytes += block.bytes.size();
    options_.admit(bytes);
  }
  // Readers see the rows in memory until the WriteBatch returned; the block keys keep them from being seen twice.
  absl::Status committed = Commit(*seal);
  while (!committed.ok()) {
    SetHealth(committed);
    spdlog::error("store: {}; rows stay in memory and rings, trying again each second", std::string(committed.message()));
    std::unique_lock queue_lock(queue_mu_);
    if (work_ready_.wait_for(queue_lock, std::chrono::nanoseconds(kRetryNs), [&] { return stopping_; })) break;
    queue_lock.unlock();
    committed = Commit(*seal);
  }
  SetHealth(committed);
  lock.lock();
  for (auto& [run, state] : runs_) {
    state->open.Clear();
    state->rollup.MarkStored();
  }
  lock.unlock();
  // Of sessions long over, too: forgetting them all now and then makes one seal come early.
  if (stored_positions_.size() > kMostStoredPositions) stored_positions_.clear();
  for (const PositionRow& row : seal->positions) stored_positions_[{row.session, row.ring}] = row.position;
  positions_.clear();
  ring_waits_ = false;
  session_names_.clear();
  pending_ = false;
  for (auto& callback : std::exchange(callbacks_, {})) callback(committed);
}

absl::Status Pipeline::Health() const {
  const std::lock_guard lock(mu_);
  return health_;
}

void Pipeline::Forget(RunId run) {
  const std::lock_guard lock(mu_);
  runs_.erase(run.value);
}

void Pipeline::NoteEvicted(RunId run) {
  // Read again, not added: whoever loads the run between the commit and this call has seen the new rows.
  auto evicted = LoadEvicted(*store_, run);
  const std::lock_guard lock(mu_);
  const auto it = runs_.find(run.value);
  if (it != runs_.end() && evicted.ok()) it->second->evicted = *std::move(evicted);
}

RunState* Pipeline::State(RunId run) const {
  const auto it = runs_.find(run.value);
  if (it != runs_.end()) return it->second.get();
  auto loaded = RunState::Load(*store_, run);
  if (!loaded.ok()) {
    spdlog::error("run {}: {}", run.value, std::string(loaded.status().message()));
    return nullptr;
  }
  return runs_.emplace(run.value, *std::move(loaded)).first->second.get();
}

std::vector<LiveBlock> Pipeline::LiveBlocks(RunId run, TableId table) const {
  const std::lock_guard lock(mu_);
  const auto it = runs_.find(run.value);
  return it == runs_.end() ? std::vector<LiveBlock>{} : it->second->open.Snapshot(table);
}

std::string Pipeline::Name(RunId run, NameId id) const {
  const std::lock_guard lock(mu_);
  const RunState* state = State(run);
  if (state == nullptr || id == NameId{}) return "";
  const std::string_view text = state->names.Text(id);
  return text.empty() ? fmt::format("(unknown name {})", id.value) : std::string(text);
}

EntityInfo Pipeline::Entity(RunId run, EntityId id) const {
  const std::lock_guard lock(mu_);
  const RunState* state = State(run);
  if (state == nullptr) return {};
  const struct Entity entity = state->entities.Find(id);
  const auto& inner = entity.attributes.inner_ids;
  return {entity.key, entity.attributes.display, entity.attributes.rank, inner.empty() ? 0 : inner.back(), entity.attributes.gil};
}

std::vector<std::pair<EntityId, EntityInfo>> Pipeline::Entities(RunId run) const {
  size_t count = 0;
  {
    const std::lock_guard lock(mu_);
    const RunState* state = State(run);
    count = state == nullptr ? 0 : state->entities.size();
  }
  std::vector<std::pair<EntityId, EntityInfo>> result;
  for (uint32_t id = 1; id <= count; ++id) {
    EntityInfo info = Entity(run, EntityId{id});
    result.emplace_back(EntityId{id}, std::move(info));
  }
  return result;
}

std::vector<std::pair<NameId, std::string>> Pipeline::Names(RunId run) const {
  std::vector<std::pair<NameId, std::string>> result;
  const std::lock_guard lock(mu_);
  const RunState* state = State(run);
  if (state == nullptr) return result;
  for (uint32_t id = 1;; ++id) {
    const std::string_view text = state->names.Text(NameId{id});
    if (text.empty() && id > kOtherNameId.value) break;
    if (!text.empty()) result.emplace_back(NameId{id}, std::string(text));
  }
  return result;
}

RunTotals Pipeline::Totals(RunId run) const {
  const std::lock_guard lock(mu_);
  const RunState* state = State(run);
  return state == nullptr ? RunTotals{} : WithEvicted(state->totals, state->evicted);
}

}  // namespace stepscope
