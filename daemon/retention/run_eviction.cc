// SPDX-License-Identifier: Apache-2.0
#include "daemon/retention/run_eviction.h"

#include <algorithm>
#include <limits>

#include "base/status.h"
#include "daemon/upload/block_cover.h"
#include "stepscope/store/v1/store.pb.h"
#include "storage/keys.h"
#include "trace/block.h"

namespace stepscope {
namespace {

constexpr int64_t kHourSeconds = 3600;
constexpr int64_t kHourNs = kHourSeconds * kNsPerSecond;
/// Steps that begin before an hour or end after it are seen if they are no longer than this, or annotated.
constexpr int64_t kStepReachNs = 600 * kNsPerSecond;
constexpr size_t kMostBlocks = 4096;  ///< of one WriteBatch
constexpr int64_t kLongestSpreadHours = 24;
constexpr uint32_t kLargeBlockRows = 16'384;
constexpr std::string_view kCursorsId = "cursors";

NodeTime SlotBegin(uint32_t slot) { return {int64_t{slot} * kNsPerSecond}; }
/// Where the long stripe begins for ForEachBlock.
constexpr NodeTime kStripeOnly{int64_t{kLongSlot - 1} * kNsPerSecond};
constexpr NodeTime kForever{std::numeric_limits<int64_t>::max()};

bool KeepsAllRows(TableId table) {
  return table == TableId::kClockSample || table == TableId::kFinding || table == TableId::kLostPart || table == TableId::kLoss;
}

/// All, or those that views need to name steps.
std::vector<size_t> RowsToKeep(const Batch& batch) {
  std::vector<size_t> rows;
  for (size_t row = 0; row < batch.rows(); ++row) {
    const bool all = KeepsAllRows(batch.table);
    const auto domain = all ? SpanDomain::kStep : static_cast<SpanDomain>(batch.columns[span_column::kDomain][row]);
    if (domain == SpanDomain::kStep || domain == SpanDomain::kOptimizer) rows.push_back(row);
  }
  return rows;
}

void CopyRow(const Batch& from, size_t row, Batch* to) {
  to->lane.push_back(from.lane[row]);
  for (size_t c = 0; c < from.columns.size(); ++c) to->columns[c].push_back(from.columns[c][row]);
}

uint32_t LossSeq(Uploaded uploaded) { return uploaded == Uploaded::kYes ? 1 : 0; }
uint16_t KeptShard(Uploaded uploaded) { return uploaded == Uploaded::kYes ? kKeptUploadedShard : kKeptShard; }

}  // namespace

/// What becomes one WriteBatch.
struct RunEviction::Round {
  struct Side {
    EvictedStretch evicted;
    Batch kept;
  };
  Round(TableId of, RunId run) : table(of) {
    for (Side& side : sides) {
      side.kept = Batch::For(of, run);
      side.kept.interned = true;
    }
  }
  Side& Of(Uploaded uploaded) { return sides[uploaded == Uploaded::kYes]; }
  bool Full(uint64_t wanted) const {
    const size_t kept = std::max(sides[0].kept.rows(), sides[1].kept.rows());
    return bytes >= wanted || dropped.size() >= kMostBlocks || kept + kLargeBlockRows > kMaxBlockRows;
  }

  TableId table;
  std::vector<BlockKey> dropped;
  std::array<Side, 2> sides;
  uint64_t bytes = 0;   ///< of the blocks dropped, less what is stored instead
  uint32_t next = 0;    ///< slot to go on with
  bool stuck = false;   ///< this step may go no further
  absl::Status failed;  ///< of reading evidence
  /// Of the hours met, read since the walk began: what it meets was stored with its steps, maybe after an earlier walk.
  std::map<int64_t, Evidence> evidence;
};

RunEviction::RunEviction(Seams seams, RunId run, const EvidenceRules& rules)
    : seams_(std::move(seams)), run_(run), rules_(rules), reader_(seams_.store, nullptr), evicted_(run) {}
RunEviction::~RunEviction() = default;

absl::Status RunEviction::Load() {
  STEPSCOPE_ASSIGN_OR_RETURN(const auto stored, seams_.store->GetMeta(RunMetaKind("retention", run_), kCursorsId));
  store::v1::RetentionCursors cursors;
  if (stored && cursors.ParseFromString(*stored)) {
    for (const auto& cursor : cursors.cursors()) {
      if (cursor.step() < cursors_.size()) cursors_[cursor.step()][static_cast<TableId>(cursor.table())] = cursor.slot();
    }
  }
  for (const Uploaded uploaded : {Uploaded::kNo, Uploaded::kYes}) {
    STEPSCOPE_ASSIGN_OR_RETURN(next_seq_[uploaded], seams_.store->NextSeq(run_, KeptShard(uploaded)));
  }
  return ForEachEvicted(*seams_.store, run_, [this](bool uploaded, const Batch& loss) {
    evicted_.Load(loss, uploaded ? Uploaded::kYes : Uploaded::kNo);
  });
}

absl::Status RunEviction::Refresh() {
  uploaded_ = std::make_unique<BlockCover>();
  return seams_.store->ForEachUpload(run_, [&](uint32_t, std::string_view value) {
    store::v1::UploadPart part;
    if (!part.ParseFromArray(value.data(), static_cast<int>(value.size()))) return true;
    if (part.state() != store::v1::UploadPart::DONE) return true;
    for (const store::v1::UploadFile& file : part.files()) uploaded_->Add(file);
    return true;
  });
}

absl::StatusOr<uint64_t> RunEviction::Evict(size_t step, TableId table, uint32_t limit, uint64_t wanted,
                                            std::vector<BlockRange>* ranges) {
  uint64_t freed = 0;
  while (freed < wanted && Cursor(step, table) < limit) {
    const uint32_t from = Cursor(step, table);
    STEPSCOPE_ASSIGN_OR_RETURN(Round round, Collect(step, table, limit, wanted - freed));
    MoveCursor(step, table, round.next);
    if (!round.dropped.empty()) {
      STEPSCOPE_RETURN_IF_ERROR(Commit(round));
      ranges->push_back({run_, table, from, round.next});
    }
    freed += round.bytes;
    if (round.stuck) return freed;
  }
  if (freed >= wanted || kEvictionSteps[step].uploaded_only) return freed;
  uint32_t& looked = long_limit_[{step, table}];
  if (limit < looked + kHourSeconds) return freed;
  looked = limit;
  STEPSCOPE_ASSIGN_OR_RETURN(Round round, CollectLong(step, table, limit));
  if (round.dropped.empty()) return freed;
  STEPSCOPE_RETURN_IF_ERROR(Commit(round));
  ranges->push_back({run_, table, kLongSlot, kLongSlot});
  return freed + round.bytes;
}

absl::StatusOr<RunEviction::Round> RunEviction::Collect(size_t step, TableId table, uint32_t limit, uint64_t wanted) {
  Round round(table, run_);
  round.next = limit;
  const EvictionStep& rule = kEvictionSteps[step];
  std::optional<int64_t> hour;
  const NodeTime begin = SlotBegin(Cursor(step, table)), end = SlotBegin(limit);
  const auto visit = [&](const BlockKey& key, std::string_view bytes) {
    if (key.slot >= limit) return false;
    round.stuck = rule.uploaded_only && !uploaded_->Contains(key);
    const bool next_hour = hour && *hour != key.slot / kHourSeconds;
    if (round.stuck || next_hour || round.Full(wanted)) {
      round.next = key.slot;
      return false;
    }
    hour = key.slot / kHourSeconds;
    Judge(key, bytes, rule, round);
    return round.failed.ok();
  };
  STEPSCOPE_RETURN_IF_ERROR(seams_.store->ForEachBlock(run_, table, begin, end, visit));
  STEPSCOPE_RETURN_IF_ERROR(round.failed);
  return round;
}

/// Rows longer than 10 s, and late ones.
absl::StatusOr<RunEviction::Round> RunEviction::CollectLong(size_t step, TableId table, uint32_t limit) {
  Round round(table, run_);
  const auto visit = [&](const BlockKey& key, std::string_view bytes) {
    if (key.shard >= kKeptShard) return false;
    const auto header = PeekHeader(bytes);
    if (header.ok() && header->max_time < SlotBegin(limit)) {
      Judge(key, bytes, kEvictionSteps[step], round);
    }
    return round.failed.ok() && !round.Full(std::numeric_limits<uint64_t>::max());
  };
  STEPSCOPE_RETURN_IF_ERROR(seams_.store->ForEachBlock(run_, table, kStripeOnly, kForever, visit));
  STEPSCOPE_RETURN_IF_ERROR(round.failed);
  return round;
}

void RunEviction::Judge(const BlockKey& key, std::string_view bytes, const EvictionStep& step, Round& round) {
  const auto header = PeekHeader(bytes);
  if (!header.ok()) return;  // damaged: its reader says so, and deleting it would hide it
  const bool merged_only = KeepsAllRows(key.table);
  if (merged_only && header->rows >= kLargeBlockRows) return;
  const absl::StatusOr<bool> is_protected = merged_only ? false : IsProtected(header->min_time, header->max_time, step, round);
  if (!is_protected.ok()) round.failed = is_protected.status();
  if (!is_protected.ok() || *is_protected) return;
  Round::Side& side = round.Of(uploaded_->Contains(key) ? Uploaded::kYes : Uploaded::kNo);
  uint64_t kept = 0;
  if (merged_only || key.table == TableId::kSpan) {
    const auto block = DecodeBlock(bytes);
    if (!block.ok()) return;
    const std::vector<size_t> rows = RowsToKeep(block->batch);
    if (rows.size() >= kLargeBlockRows) return;  // large enough as it is
    for (const size_t row : rows) CopyRow(block->batch, row, &side.kept);
    kept = rows.size();
  }
  round.dropped.push_back(key);
  round.bytes += bytes.size();
  const uint64_t rows = header->rows - kept;
  if (rows > 0) side.evicted.Merge({header->min_time, header->max_time, rows, bytes.size() * rows / header->rows});
}

absl::StatusOr<bool> RunEviction::IsProtected(NodeTime first, NodeTime last, const EvictionStep& step, Round& round) const {
  if (step.spares == Spares::kNothing) return false;
  const int64_t begin = first.ns / kHourNs, end = last.ns / kHourNs;
  if (end - begin > kLongestSpreadHours) return true;
  for (int64_t hour = begin; hour <= end; ++hour) {
    STEPSCOPE_ASSIGN_OR_RETURN(const Evidence* evidence, EvidenceOfHour(hour, round));
    if (Touches(evidence->kept, first, last)) return true;
    if (step.spares == Spares::kAllEvidence && Touches(evidence->sampled, first, last)) return true;
  }
  return false;
}

absl::StatusOr<const Evidence*> RunEviction::EvidenceOfHour(int64_t hour, Round& round) const {
  if (const auto known = round.evidence.find(hour); known != round.evidence.end()) return &known->second;
  const TimeRange range{{hour * kHourNs}, {(hour + 1) * kHourNs}};
  STEPSCOPE_ASSIGN_OR_RETURN(const std::vector<StepRow> steps, StepsAround(range));
  STEPSCOPE_ASSIGN_OR_RETURN(const std::vector<TimeRange> findings, FindingsAround(range));
  return &(round.evidence[hour] = EvidenceOf(steps, findings, rules_));
}

absl::StatusOr<std::vector<StepRow>> RunEviction::StepsAround(TimeRange hour) const {
  StepFinder finder;
  const NodeTime begin = hour.begin + -kStepReachNs, end = hour.end + kStepReachNs;
  STEPSCOPE_RETURN_IF_ERROR(reader_.ForEachBatch(run_, TableId::kSpan, begin, end, [&](const Batch& spans) {
    finder.Add(spans);
    return true;
  }));
  std::vector<StepRow> steps = finder.Steps([this](uint32_t lane) { return seams_.dictionary->Entity(run_, {lane}).key.a; });
  std::erase_if(steps, [&](const StepRow& step) { return step.end() < begin || step.start > end; });
  return steps;
}

absl::StatusOr<std::vector<TimeRange>> RunEviction::FindingsAround(TimeRange hour) const {
  std::vector<TimeRange> findings;
  const NodeTime begin = hour.begin + -rules_.around_finding_ns, end = hour.end + rules_.around_finding_ns;
  STEPSCOPE_RETURN_IF_ERROR(reader_.ForEachBatch(run_, TableId::kFinding, begin, end, [&](const Batch& rows) {
    for (size_t row = 0; row < rows.rows(); ++row) {
      const NodeTime start{rows.columns[0][row]};
      const NodeTime until = start + rows.columns[1][row];
      if (until >= begin && start <= end) findings.push_back({start, until});
    }
    return true;
  }));
  return findings;
}

absl::Status RunEviction::Commit(Round& round) {
  Seal seal;
  seal.dropped = std::move(round.dropped);
  for (const Uploaded uploaded : {Uploaded::kNo, Uploaded::kYes}) {
    Round::Side& side = round.Of(uploaded);
    if (side.kept.rows() > 0) {
      STEPSCOPE_ASSIGN_OR_RETURN(std::string bytes, EncodeBlock(side.kept));
      round.bytes -= std::min<uint64_t>(round.bytes, bytes.size());
      seal.blocks.push_back({{run_, round.table, kLongSlot, KeptShard(uploaded), next_seq_[uploaded]++}, std::move(bytes)});
    }
    if (side.evicted.rows == 0) continue;
    evicted_.Add(round.table, uploaded, side.evicted);
    STEPSCOPE_ASSIGN_OR_RETURN(std::string bytes, EncodeBlock(evicted_.Rows(uploaded)));
    seal.blocks.push_back({{run_, TableId::kLoss, kLongSlot, kEvictedShard, LossSeq(uploaded)}, std::move(bytes)});
  }
  seal.meta.push_back({RunMetaKind("retention", run_), std::string(kCursorsId), EncodeCursors()});
  STEPSCOPE_RETURN_IF_ERROR(seams_.store->Commit(seal));
  if (round.sides[0].evicted.rows + round.sides[1].evicted.rows > 0) seams_.evicted(run_);
  return absl::OkStatus();
}

std::string RunEviction::EncodeCursors() const {
  store::v1::RetentionCursors message;
  for (size_t step = 0; step < cursors_.size(); ++step) {
    for (const auto& [table, slot] : cursors_[step]) {
      auto* cursor = message.add_cursors();
      cursor->set_step(static_cast<uint32_t>(step));
      cursor->set_table(static_cast<uint32_t>(table));
      cursor->set_slot(slot);
    }
  }
  return message.SerializeAsString();
}

/// What a step has looked at the earlier ones need not: they spare more.
void RunEviction::MoveCursor(size_t step, TableId table, uint32_t slot) {
  for (size_t earlier = 0; earlier <= step; ++earlier) Cursor(earlier, table) = std::max(Cursor(earlier, table), slot);
}

}  // namespace stepscope
