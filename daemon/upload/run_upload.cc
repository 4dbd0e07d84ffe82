// SPDX-License-Identifier: Apache-2.0
#include "daemon/upload/run_upload.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/status.h"
#include "daemon/upload/lane_directory.h"
#include "daemon/upload/manifest.h"
#include "storage/keys.h"

namespace stepscope {
namespace {

constexpr uint32_t kClosingPart = 0xFFFFFFFF;
/// A block of slot s is stored soon after second s; older ones that come late are found at the end of the run.
constexpr uint32_t kLateSlots = 10;
/// Of one part; far more than a part's bytes can be.
constexpr uint64_t kMostBlocks = 1 << 24;
/// A file that was written faster had no request that timed out.
constexpr int64_t kRequestTimeoutNs = kRequestTimeoutSeconds * kNsPerSecond;
constexpr NodeTime kForever{std::numeric_limits<int64_t>::max()};

/// Rows kept of uploaded blocks are uploaded. Loss rows of retention change until the end; those of uploaded blocks (seq 1) say
/// what is not on this node any more, which does not concern the bucket.
bool IsForUpload(const BlockKey& key, bool ended) {
  if (key.shard == kEvictedShard) return ended && key.seq == 0;
  return key.shard != kKeptUploadedShard;
}

/// What a part may name: tables there are, and ranges whose blocks are counted.
bool IsSound(const store::v1::UploadPart& part) {
  uint64_t blocks = 0, named = 0;
  for (const store::v1::UploadFile& file : part.files()) {
    if (file.table() > UINT16_MAX || FindTable(static_cast<TableId>(file.table())) == nullptr) return false;
    named += std::min<uint64_t>(file.blocks(), UINT32_MAX);
    for (const store::v1::UploadBlocks& range : file.ranges()) {
      if (range.last_seq() < range.first_seq()) return false;
      blocks += uint64_t{range.last_seq()} - range.first_seq() + 1;
    }
  }
  return blocks == named && blocks <= kMostBlocks;
}

NodeTime SlotBegin(uint32_t slot) { return {int64_t{slot} * kNsPerSecond}; }

}  // namespace

RunUpload::RunUpload(const Seams& seams, UploadRun run, int64_t part_bytes)
    : seams_(seams), run_(std::move(run)), part_bytes_(part_bytes), paths_(run_) {}

bool RunUpload::HasPlanned() const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [](const auto& part) { return part.second.state() != store::v1::UploadPart::DONE; });
}

absl::Status RunUpload::Load() {
  absl::Status status = absl::OkStatus();
  const absl::Status scan = seams_.store->ForEachUpload(run_.run, [&](uint32_t number, std::string_view value) {
    store::v1::UploadPart part;
    if (!part.ParseFromArray(value.data(), static_cast<int>(value.size())) || !IsSound(part)) {
      status = absl::DataLossError(
          fmt::format("upload progress of run {}, part {} is damaged; delete the job to start over", run_.run.value, number));
      return false;
    }
    if (number == kClosingPart) {
      closed_ = part.state() == store::v1::UploadPart::DONE;
      return true;
    }
    for (const store::v1::UploadFile& file : part.files()) cover_.Add(file);
    parts_[number] = std::move(part);
    return true;
  });
  STEPSCOPE_RETURN_IF_ERROR(scan);
  return status;
}

absl::Status RunUpload::Collect(Reach reach) {
  const uint32_t newest = newest_slot_;
  const uint32_t first = reach == Reach::kRecent && newest > kLateSlots ? newest - kLateSlots : 0;
  for (const TableSpec& table : AllTables()) STEPSCOPE_RETURN_IF_ERROR(CollectTable(table.id, SlotBegin(first)));
  return absl::OkStatus();
}

absl::Status RunUpload::CollectTable(TableId table, NodeTime begin) {
  return seams_.store->ForEachBlock(run_.run, table, begin, kForever, [&](const BlockKey& key, std::string_view bytes) {
    if (key.slot != kLongSlot) newest_slot_ = std::max(newest_slot_, key.slot);
    if (cover_.Contains(key) || !IsForUpload(key, run_.ended)) return true;
    cover_.Add(key);
    const absl::StatusOr<BlockHeader> header = PeekStoredBlock(key, bytes);
    if (!header.ok()) {
      LeaveOut(key, bytes, header.status());
      return true;
    }
    if (pending_.empty()) pending_since_ = seams_.clock->Node();
    pending_.push_back({key, bytes.size(), header->rows});
    pending_bytes_ += bytes.size();
    return true;
  });
}

void RunUpload::LeaveOut(const BlockKey& key, std::string_view bytes, const absl::Status& why) {
  ++damaged_blocks_;
  spdlog::warn("run {}: a block of table {} is left out of the upload: {}", run_.run.value, static_cast<int>(key.table),
               std::string(why.message()));
  if (seams_.damaged != nullptr) seams_.damaged->Note(key, bytes, why);
}

absl::Status RunUpload::Save(uint32_t number) {
  return seams_.store->PutUpload(run_.run, number, parts_.at(number).SerializeAsString());
}

absl::Status RunUpload::WritePart(Dataset& dataset) {
  const uint32_t number = parts_.empty() ? 0 : parts_.rbegin()->first + 1;
  store::v1::UploadPart part = CutPart(pending_, part_bytes_);
  for (store::v1::UploadFile& file : *part.mutable_files()) {
    file.set_path(paths_.Table(FindTable(static_cast<TableId>(file.table()))->name, number));
  }
  parts_[number] = std::move(part);
  untried_.insert(number);
  pending_bytes_ = 0;
  for (const PendingBlock& block : pending_) pending_bytes_ += block.bytes;
  pending_since_ = seams_.clock->Node();
  STEPSCOPE_RETURN_IF_ERROR(Save(number));
  // Rows must not outlive their node in the bucket: what is uploaded is power-safe in the store first.
  STEPSCOPE_RETURN_IF_ERROR(seams_.store->Sync());
  return FinishPart(dataset, number);
}

absl::Status RunUpload::FinishPlanned(Dataset& dataset) {
  for (const auto& [number, part] : parts_) {
    if (part.state() != store::v1::UploadPart::DONE) STEPSCOPE_RETURN_IF_ERROR(FinishPart(dataset, number));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> RunUpload::Exists(Dataset& dataset, const store::v1::UploadFile& file) const {
  if (file.sha256().empty()) return false;
  STEPSCOPE_ASSIGN_OR_RETURN(const int64_t bytes, dataset.Size(file.path()));
  return bytes == static_cast<int64_t>(file.bytes());
}

absl::Status RunUpload::FinishPart(Dataset& dataset, uint32_t number) {
  store::v1::UploadPart& part = parts_.at(number);
  STEPSCOPE_ASSIGN_OR_RETURN(const WallClockMap wall, ReadWallClock());
  const LaneDirectory texts(*seams_.dictionary, run_.run);
  const bool first_try = untried_.erase(number) > 0;
  for (store::v1::UploadFile& file : *part.mutable_files()) {
    STEPSCOPE_ASSIGN_OR_RETURN(const bool exists, Exists(dataset, file));
    if (exists) continue;
    const NodeTime begun = seams_.clock->Node();
    STEPSCOPE_RETURN_IF_ERROR(WriteFile(dataset, part, file, wall, texts));
    STEPSCOPE_RETURN_IF_ERROR(Save(number));
    if (!first_try || seams_.clock->Node() - begun >= kRequestTimeoutNs) SweepUploads(dataset, file.path());
  }
  STEPSCOPE_RETURN_IF_ERROR(dataset.PutText(paths_.PartManifest(number), PartManifestText(run_, number, part)));
  part.set_state(store::v1::UploadPart::DONE);
  uploaded_here_.insert(number);
  return Save(number);
}

/// Afterwards, when a server that hung has carried out the requests that were given up meanwhile: each began an upload. What is
/// left open costs storage but hurts nobody, so trouble here does not stop the upload.
void RunUpload::SweepUploads(Dataset& dataset, const std::string& path) const {
  const absl::StatusOr<int> swept = dataset.SweepUploads(path);
  if (!swept.ok()) {
    spdlog::warn(
        "run {}: an unfinished upload of an earlier try may remain; let the bucket expire incomplete multipart uploads: {}",
        run_.run.value, std::string(swept.status().message()));
  } else if (*swept > 0) {
    spdlog::info("run {}: aborted {} unfinished uploads of {}", run_.run.value, *swept, path);
  }
}

absl::Status RunUpload::WriteFile(Dataset& dataset, const store::v1::UploadPart& part, store::v1::UploadFile& file,
                                  const WallClockMap& wall, const RowTexts& texts) {
  const TableSpec& table = *FindTable(static_cast<TableId>(file.table()));
  TableFile::Context context;
  context.node = run_.node;
  context.run = run_.run;
  context.texts = &texts;
  context.wall = &wall;
  STEPSCOPE_ASSIGN_OR_RETURN(const std::unique_ptr<TableFile> out, TableFile::Create(dataset, file.path(), table, context));
  STEPSCOPE_RETURN_IF_ERROR(FeedBlocks(part, file, *out));
  STEPSCOPE_ASSIGN_OR_RETURN(const FileTotals totals, out->Close());
  file.set_rows(out->rows());
  file.set_bytes(totals.bytes);
  file.set_sha256(totals.sha256);
  return absl::OkStatus();
}

absl::Status RunUpload::FeedBlocks(const store::v1::UploadPart& part, const store::v1::UploadFile& file, TableFile& out) {
  BlockCover wanted;
  wanted.Add(file);
  uint64_t found = 0;
  absl::Status status = absl::OkStatus();
  const auto feed = [&](const BlockKey& key, std::string_view bytes) {
    if (!wanted.Contains(key)) return true;
    ++found;
    absl::StatusOr<DecodedBlock> block = ReadStoredBlock(key, bytes);
    if (!block.ok()) {
      LeaveOut(key, bytes, block.status());
      return true;
    }
    status = out.Add(*std::move(block));
    return status.ok();
  };
  // A part of long rows alone has no slots of its own.
  const uint32_t first_slot = std::min(part.first_slot(), part.last_slot());
  const NodeTime begin = SlotBegin(first_slot), end = SlotBegin(part.last_slot()) + 1;
  STEPSCOPE_RETURN_IF_ERROR(seams_.store->ForEachBlock(run_.run, static_cast<TableId>(file.table()), begin, end, feed));
  STEPSCOPE_RETURN_IF_ERROR(status);
  if (found < file.blocks()) {
    spdlog::warn("run {}: {} of the {} blocks of {} were evicted before they were uploaded; table loss says what is missing",
                 run_.run.value, file.blocks() - found, file.blocks(), file.path());
  }
  return absl::OkStatus();
}

absl::StatusOr<WallClockMap> RunUpload::ReadWallClock() {
  WallClockMap wall(run_.start_node, run_.start_wall);
  const auto add = [&](const BlockKey& key, std::string_view bytes) {
    const absl::StatusOr<DecodedBlock> block = ReadStoredBlock(key, bytes);
    if (!block.ok()) return true;
    const auto& columns = block->batch.columns;
    for (size_t row = 0; row < block->batch.rows(); ++row) {
      if (columns[clock_column::kWall][row] <= 0) continue;
      wall.Add({columns[clock_column::kNode][row]}, {columns[clock_column::kWall][row]});
      wall_error_ns_ = std::max(wall_error_ns_, columns[clock_column::kError][row]);
    }
    return true;
  };
  STEPSCOPE_RETURN_IF_ERROR(seams_.store->ForEachBlock(run_.run, TableId::kClockSample, {0}, kForever, add));
  wall.Freeze();
  return wall;
}

absl::Status RunUpload::VerifyEarlierParts(Dataset& dataset) {
  for (auto& [number, part] : parts_) {
    if (uploaded_here_.contains(number)) continue;
    // Rewrites what is missing or of another size, and its manifest with it.
    STEPSCOPE_RETURN_IF_ERROR(FinishPart(dataset, number));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::map<TableId, uint64_t>> RunUpload::StoredRows() {
  std::map<TableId, uint64_t> rows;
  for (const TableSpec& table : AllTables()) {
    const auto count = [&](const BlockKey& key, std::string_view bytes) {
      if (key.shard == kEvictedShard && key.seq != 0) return true;
      if (const auto header = PeekStoredBlock(key, bytes); header.ok()) rows[table.id] += header->rows;
      return true;
    };
    STEPSCOPE_RETURN_IF_ERROR(seams_.store->ForEachBlock(run_.run, table.id, {0}, kForever, count));
  }
  return rows;
}

/// Rows evicted after their upload are in the parts; those evicted before it are missing there.
absl::Status RunUpload::CountEvicted(ClosingFacts* facts) const {
  return ForEachEvicted(*seams_.store, run_.run, [&](bool uploaded, const Batch& loss) {
    const auto& columns = loss.columns;
    for (size_t row = 0; row < loss.rows(); ++row) {
      const int64_t table = columns[loss_column::kTable][row], count = columns[loss_column::kCount][row];
      facts->stored_rows[static_cast<TableId>(table)] += static_cast<uint64_t>(count);
      if (uploaded) continue;
      store::v1::LossRecord* record = facts->record.add_loss();
      record->set_stage(columns[loss_column::kStage][row]);
      record->set_reason(columns[loss_column::kReason][row]);
      record->set_table(table);
      record->set_count(count);
      record->set_bytes(columns[loss_column::kBytes][row]);
    }
  });
}

absl::Status RunUpload::Close(Dataset& dataset) {
  STEPSCOPE_RETURN_IF_ERROR(VerifyEarlierParts(dataset));
  STEPSCOPE_ASSIGN_OR_RETURN(const WallClockMap wall, ReadWallClock());
  ClosingFacts facts;
  facts.parts = &parts_;
  facts.damaged_blocks = damaged_blocks_;
  facts.wall = &wall;
  facts.wall_error_ns = wall_error_ns_;
  STEPSCOPE_ASSIGN_OR_RETURN(facts.stored_rows, StoredRows());
  STEPSCOPE_ASSIGN_OR_RETURN(const std::optional<std::string> record, seams_.store->GetMeta("totals", RunMetaId(run_.run)));
  if (record) facts.record.ParseFromString(*record);
  STEPSCOPE_RETURN_IF_ERROR(CountEvicted(&facts));
  STEPSCOPE_RETURN_IF_ERROR(dataset.PutText(paths_.ClosingManifest(), ClosingManifestText(run_, facts)));
  store::v1::UploadPart closing;
  closing.set_state(store::v1::UploadPart::DONE);
  STEPSCOPE_RETURN_IF_ERROR(seams_.store->PutUpload(run_.run, kClosingPart, closing.SerializeAsString()));
  closed_ = true;
  return seams_.store->Sync();
}

}  // namespace stepscope
