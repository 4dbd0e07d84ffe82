// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/session_rows.h"

#include <cmath>
#include <utility>

namespace stepscope {

SessionRows::SessionRows(const SessionIdentity* identity)
    : identity_(identity),
      spans_(Open(TableId::kSpan)),
      counters_(Open(TableId::kCounter)),
      losses_(Open(TableId::kLoss)),
      clock_samples_(Open(TableId::kClockSample)) {}

SessionRows::Table SessionRows::Open(TableId table) const {
  Table open;
  open.batch = Batch::For(table, identity_->run);
  open.batch.clock = identity_->clock;
  return open;
}

EntityKey SessionRows::ProcessEntity() const {
  return {EntityKind::kProcess, identity_->process.pid.value, identity_->process.start_ticks, 0, {}};
}

EntityKey SessionRows::ThreadKey(int32_t tid) const {
  if (tid == 0) return ProcessEntity();
  return {EntityKind::kThread, identity_->process.pid.value, identity_->process.start_ticks, identity_->host_tid(tid), {}};
}

uint32_t SessionRows::NameIn(Table& table, const std::string* text) const {
  const auto [found, added] = table.names.try_emplace(text, static_cast<uint32_t>(table.batch.names.size()));
  if (added) table.batch.names.push_back(*text);
  return found->second;
}

uint32_t SessionRows::ThreadIn(Table& table, int32_t tid) const {
  const auto [found, added] = table.threads.try_emplace(tid, static_cast<uint32_t>(table.batch.entities.size()));
  if (added) table.batch.entities.push_back(ThreadKey(tid));
  return found->second;
}

void SessionRows::Add(const SpanRow& row) {
  spans_.batch.Append(ThreadIn(spans_, row.tid),
                      {static_cast<int64_t>(row.begin_ticks), static_cast<int64_t>(row.end_ticks), NameIn(spans_, row.name),
                       row.domain, row.number, row.has_number ? 1 : 0, row.depth, static_cast<int64_t>(row.token), row.flags});
}

void SessionRows::Add(const LossRow& row) {
  const uint32_t source = ThreadIn(losses_, row.tid);
  losses_.batch.Append(
      source, {static_cast<int64_t>(row.first_ticks), static_cast<int64_t>(row.last_ticks), static_cast<int64_t>(row.stage),
               source, static_cast<int64_t>(row.reason), 0, row.count, row.bytes});
}

void SessionRows::Add(const AnchorRow& row) {
  anchors.push_back(row);
  const double half_width_ns = static_cast<double>(row.ticks_width) * identity_->ns_per_tick / 2;
  const auto error_ns = static_cast<int64_t>(std::ceil(std::min(half_width_ns, 1e15)));
  clock_samples_.batch.Append(ThreadIn(clock_samples_, 0), {static_cast<int64_t>(row.ticks), identity_->clock_kind,
                                                            static_cast<int64_t>(row.ticks), row.realtime_ns, error_ns});
}

void SessionRows::AddCounter(uint64_t ticks, const std::string* metric, int64_t value_bits) {
  const auto [lane, added] = counters_.metrics.try_emplace(metric, static_cast<uint32_t>(counters_.batch.entities.size()));
  if (added) {
    counters_.batch.entities.push_back(
        {EntityKind::kMetric, identity_->process.pid.value, identity_->process.start_ticks, 0, *metric});
  }
  counters_.batch.Append(lane->second, {static_cast<int64_t>(ticks), NameIn(counters_, metric), value_bits, 0});
}

void SessionRows::NoteThread(int32_t tid, std::string comm) {
  identity_->thread_began(tid);
  const EntityKey key = ThreadKey(tid);
  notes_.push_back({identity_->run, key, std::move(comm), -1, key.c == tid ? 0 : tid});
}

void SessionRows::NoteProcess(std::string command, int32_t rank, int32_t inner_pid) {
  const int32_t inner = inner_pid == identity_->process.pid.value ? 0 : inner_pid;
  notes_.push_back({identity_->run, ProcessEntity(), std::move(command), rank, inner});
}

void SessionRows::NoteGil(AddressRange gil) { notes_.push_back({identity_->run, ProcessEntity(), {}, -1, 0, gil}); }

bool SessionRows::empty() const {
  return spans_.batch.rows() + counters_.batch.rows() + losses_.batch.rows() + clock_samples_.batch.rows() == 0 &&
         notes_.empty() && names.empty();
}

Delivery SessionRows::Take() {
  Delivery delivery;
  for (Table* table : {&spans_, &counters_, &losses_, &clock_samples_}) {
    if (table->batch.rows() > 0) delivery.batches.push_back(std::move(table->batch));
  }
  delivery.notes = std::move(notes_);
  delivery.session_names = std::move(names);
  return delivery;
}

}  // namespace stepscope
