// SPDX-License-Identifier: Apache-2.0
// Store on RocksDB. Values live in one column family per kind of key (keys.h); a Seal is one WriteBatch.

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <system_error>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/status.h"
#include "rocksdb/write_batch.h"
#include "storage/block_scan.h"
#include "storage/keys.h"
#include "storage/rocksdb_open.h"
#include "storage/rocksdb_space.h"
#include "storage/rocksdb_status.h"
#include "storage/store.h"

namespace stepscope {
namespace {

constexpr std::string_view kSeqKind = "seq";
constexpr size_t kPositionHeadBytes = 12;  ///< generation u32, position u64; the decoder state follows

using KeyVisit = std::function<bool(std::string_view key, std::string_view value)>;

std::string EncodeSeqId(uint16_t shard) {
  std::string id;
  AppendBigEndian(id, shard, 2);
  return id;
}

std::string EncodePositionValue(const PositionRow& row) {
  std::string value;
  AppendBigEndian(value, row.generation, 4);
  AppendBigEndian(value, row.position, 8);
  return value += row.decoder_state;
}

absl::Status CheckSession(std::string_view session) {
  if (session.size() == kSessionBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("a session id has {} bytes, not {}", kSessionBytes, session.size()));
}

class RocksDbStore final : public Store {
 public:
  RocksDbStore(Options options, std::unique_ptr<OpenDb> open) : options_(std::move(options)), open_(std::move(open)) {}

  absl::Status Commit(const Seal& seal) override;
  absl::Status Sync() override;
  absl::Status ForEachBlock(RunId run, TableId table, NodeTime begin, NodeTime end,
                            const std::function<bool(const BlockKey&, std::string_view)>& visit) const override;
  absl::StatusOr<std::optional<std::string>> GetMeta(std::string_view kind, std::string_view id) const override;
  absl::Status ForEachMeta(std::string_view kind, const KeyVisit& visit) const override;
  absl::Status ForEachName(RunId run, const std::function<bool(NameId, std::string_view)>& visit) const override;
  absl::Status ForEachRollup(RunId run, uint32_t first_minute, uint32_t last_minute,
                             const std::function<bool(uint32_t, std::string_view)>& visit) const override;
  absl::StatusOr<std::vector<PositionRow>> Positions(std::string_view session) const override;
  absl::StatusOr<std::vector<SessionNameRow>> SessionNames(std::string_view session) const override;
  absl::Status ForgetSession(std::string_view session) override;
  absl::Status PutUpload(RunId run, uint32_t part, std::string_view value) override;
  absl::Status ForEachUpload(RunId run, const std::function<bool(uint32_t, std::string_view)>& visit) const override;
  absl::StatusOr<uint32_t> NextSeq(RunId run, uint16_t shard) const override;
  absl::Status DeleteRun(RunId run) override;
  absl::Status Reclaim(std::span<const BlockRange> ranges) override;
  absl::StatusOr<uint64_t> DiskBytes() const override;

 private:
  using RunShard = std::pair<uint32_t, uint16_t>;
  using SeqMap = std::map<RunShard, uint32_t>;

  absl::Status CheckSeal(const Seal& seal) const;
  absl::StatusOr<SeqMap> AdvanceSeqs(const Seal& seal) ABSL_EXCLUSIVE_LOCKS_REQUIRED(commit_mutex_);
  void FillBatch(const Seal& seal, rocksdb::WriteBatch& batch) const;
  absl::Status Write(rocksdb::WriteBatch& batch, std::string_view what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(commit_mutex_);
  absl::StatusOr<std::vector<std::string>> MetaKindsOf(RunId run) const;
  absl::Status Compact(Family family, const std::string& begin, const std::string& end);

  /// Calls `visit` for keys in [begin, end) of `family`, all of one snapshot; an empty `end` is no bound.
  absl::Status Scan(Family family, const std::string& begin, const std::string& end, const KeyVisit& visit) const;
  absl::Status ScanNumbers(Family family, RunId run, uint32_t first, uint32_t last,
                           const std::function<bool(uint32_t, std::string_view)>& visit) const;
  absl::Status Wrap(const rocksdb::Status& status, std::string_view what) const {
    return RocksDbStatus(status, options_.path, what);
  }
  rocksdb::ColumnFamilyHandle* Cf(Family family) const { return open_->family(family); }

  const Options options_;
  const std::unique_ptr<OpenDb> open_;
  absl::Mutex commit_mutex_;  ///< seqs are written in the order they are counted
  SeqMap next_seq_ ABSL_GUARDED_BY(commit_mutex_);
  bool failed_ ABSL_GUARDED_BY(commit_mutex_) = false;
};

absl::Status RocksDbStore::CheckSeal(const Seal& seal) const {
  for (const MetaRow& row : seal.meta) {
    if (row.kind.empty() || row.kind.find('\0') != std::string::npos) {
      return absl::InvalidArgumentError("the kind of a meta row is empty or holds a NUL byte");
    }
  }
  for (const PositionRow& row : seal.positions) STEPSCOPE_RETURN_IF_ERROR(CheckSession(row.session));
  for (const SessionNameRow& row : seal.session_names) STEPSCOPE_RETURN_IF_ERROR(CheckSession(row.session));
  return absl::OkStatus();
}

/// Next seq of each (run, shard) of the seal once it is committed.
absl::StatusOr<RocksDbStore::SeqMap> RocksDbStore::AdvanceSeqs(const Seal& seal) {
  SeqMap advanced;
  for (const SealedBlock& block : seal.blocks) {
    const RunShard id{block.key.run.value, block.key.shard};
    auto [at, added] = advanced.try_emplace(id, 0);
    if (added) {
      const auto known = next_seq_.find(id);
      if (known != next_seq_.end()) {
        at->second = known->second;
      } else {
        STEPSCOPE_ASSIGN_OR_RETURN(at->second, NextSeq(block.key.run, block.key.shard));
      }
    }
    at->second = std::max(at->second, block.key.seq + 1);
  }
  return advanced;
}

void RocksDbStore::FillBatch(const Seal& seal, rocksdb::WriteBatch& batch) const {
  for (const BlockKey& key : seal.dropped) batch.Delete(Cf(Family::kBlocks), EncodeBlockKey(key));
  for (const SealedBlock& block : seal.blocks) batch.Put(Cf(Family::kBlocks), EncodeBlockKey(block.key), block.bytes);
  for (const NameRow& row : seal.names) batch.Put(Cf(Family::kNames), EncodeRunKey(row.run, row.id.value), row.text);
  for (const RollupRow& row : seal.rollups) batch.Put(Cf(Family::kRollup), EncodeRunKey(row.run, row.minute), row.value);
  for (const PositionRow& row : seal.positions) {
    batch.Put(Cf(Family::kPosition), EncodePositionKey(row.session, row.ring), EncodePositionValue(row));
  }
  for (const SessionNameRow& row : seal.session_names) {
    batch.Put(Cf(Family::kPosition), EncodeSessionNameKey(row.session, row.ring, row.id), row.value);
  }
  for (const MetaRow& row : seal.meta) {
    const std::string key = EncodeMetaKey(row.kind, row.id);
    if (row.value.empty()) {
      batch.Delete(Cf(Family::kMeta), key);
    } else {
      batch.Put(Cf(Family::kMeta), key, row.value);
    }
  }
}

absl::Status RocksDbStore::Write(rocksdb::WriteBatch& batch, std::string_view what) {
  if (options_.read_only) {
    return absl::FailedPreconditionError(fmt::format("store {}: {}: it was opened read-only", options_.path, what));
  }
  // After a full disk RocksDB refuses every write until it is told that the cause may be gone. "Busy" means that it is looking
  // for itself: a write now could meet the log that failed, and RocksDB asserts that nobody touches it.
  if (failed_) {
    const rocksdb::Status resumed = open_->db().Resume();
    if (!resumed.ok()) return Wrap(resumed, what);
  }
  rocksdb::WriteOptions write;
  write.sync = false;
  const rocksdb::Status status = open_->db().Write(write, &batch);
  failed_ = !status.ok();
  return Wrap(status, what);
}

absl::Status RocksDbStore::Commit(const Seal& seal) {
  STEPSCOPE_RETURN_IF_ERROR(CheckSeal(seal));
  rocksdb::WriteBatch batch;
  FillBatch(seal, batch);
  const absl::MutexLock lock(&commit_mutex_);
  STEPSCOPE_ASSIGN_OR_RETURN(const SeqMap advanced, AdvanceSeqs(seal));
  for (const auto& [id, next] : advanced) {
    std::string value;
    AppendBigEndian(value, next, 4);
    batch.Put(Cf(Family::kMeta), EncodeMetaKey(RunMetaKind(kSeqKind, {id.first}), EncodeSeqId(id.second)), value);
  }
  STEPSCOPE_RETURN_IF_ERROR(Write(batch, "write a seal"));
  for (const auto& [id, next] : advanced) next_seq_[id] = next;
  return absl::OkStatus();
}

absl::Status RocksDbStore::Sync() {
  if (options_.read_only) return absl::FailedPreconditionError(fmt::format("store {} was opened read-only", options_.path));
  const absl::MutexLock lock(&commit_mutex_);
  // A log whose last write failed must not be touched again: RocksDB asserts that, and so ends the process. Commit() resumes.
  if (failed_) return absl::UnavailableError(fmt::format("store {}: not synced: the last write failed", options_.path));
  const rocksdb::Status status = open_->db().FlushWAL(/*sync=*/true);
  failed_ = !status.ok();
  return Wrap(status, "sync the write-ahead log");
}

absl::Status RocksDbStore::Scan(Family family, const std::string& begin, const std::string& end, const KeyVisit& visit) const {
  rocksdb::ReadOptions read;
  read.fill_cache = false;
  const rocksdb::Slice bound(end);
  if (!end.empty()) read.iterate_upper_bound = &bound;
  const std::unique_ptr<rocksdb::Iterator> at(open_->db().NewIterator(read, Cf(family)));
  for (at->Seek(begin); at->Valid(); at->Next()) {
    if (!visit(at->key().ToStringView(), at->value().ToStringView())) break;
  }
  return Wrap(at->status(), "read");
}

absl::Status RocksDbStore::ScanNumbers(Family family, RunId run, uint32_t first, uint32_t last,
                                       const std::function<bool(uint32_t, std::string_view)>& visit) const {
  if (first > last) return absl::OkStatus();
  return Scan(family, EncodeRunKey(run, first), PrefixEnd(EncodeRunKey(run, last)),
              [&](std::string_view key, std::string_view value) {
                const std::optional<uint32_t> number = DecodeRunKeyNumber(key);
                return !number || visit(*number, value);
              });
}

absl::Status RocksDbStore::ForEachBlock(RunId run, TableId table, NodeTime begin, NodeTime end,
                                        const std::function<bool(const BlockKey&, std::string_view)>& visit) const {
  if (begin >= end) return absl::OkStatus();
  int64_t reach_ns = 0;
  if (__builtin_add_overflow(end.ns, kLongRowNs, &reach_ns)) reach_ns = std::numeric_limits<int64_t>::max();
  const uint32_t first = SlotOf(begin), last = SlotOf({reach_ns});
  rocksdb::ReadOptions read;
  read.fill_cache = false;
  const std::string prefix_end = PrefixEnd(BlockPrefix(run, table));
  const rocksdb::Slice bound(prefix_end);
  if (!prefix_end.empty()) read.iterate_upper_bound = &bound;
  // One iterator is one snapshot: a block cannot be seen in neither or both of the ranges.
  const std::unique_ptr<rocksdb::Iterator> at(open_->db().NewIterator(read, Cf(Family::kBlocks)));
  const auto get = [&](const std::string& key) {
    rocksdb::PinnableSlice value;
    return open_->db().Get(read, Cf(Family::kBlocks), key, &value);
  };
  return Wrap(BlockScan(at.get(), get, run, table, first, last).Run(visit), "read blocks");
}

absl::StatusOr<std::optional<std::string>> RocksDbStore::GetMeta(std::string_view kind, std::string_view id) const {
  std::string value;
  const rocksdb::Status status = open_->db().Get({}, Cf(Family::kMeta), EncodeMetaKey(kind, id), &value);
  if (status.IsNotFound()) return std::optional<std::string>();
  if (!status.ok()) return Wrap(status, "read meta");
  return std::optional<std::string>(std::move(value));
}

absl::Status RocksDbStore::ForEachMeta(std::string_view kind, const KeyVisit& visit) const {
  const std::string prefix = EncodeMetaKey(kind, "");
  return Scan(Family::kMeta, prefix, PrefixEnd(prefix),
              [&](std::string_view key, std::string_view value) { return visit(key.substr(prefix.size()), value); });
}

absl::Status RocksDbStore::ForEachName(RunId run, const std::function<bool(NameId, std::string_view)>& visit) const {
  return ScanNumbers(Family::kNames, run, 0, UINT32_MAX, [&](uint32_t id, std::string_view text) { return visit({id}, text); });
}

absl::Status RocksDbStore::ForEachRollup(RunId run, uint32_t first_minute, uint32_t last_minute,
                                         const std::function<bool(uint32_t, std::string_view)>& visit) const {
  return ScanNumbers(Family::kRollup, run, first_minute, last_minute, visit);
}

absl::StatusOr<std::vector<PositionRow>> RocksDbStore::Positions(std::string_view session) const {
  STEPSCOPE_RETURN_IF_ERROR(CheckSession(session));
  std::vector<PositionRow> rows;
  const std::string prefix = PositionPrefix(session);
  STEPSCOPE_RETURN_IF_ERROR(Scan(Family::kPosition, prefix, PrefixEnd(prefix), [&](std::string_view key, std::string_view value) {
    if (key.size() != prefix.size() + 4 || value.size() < kPositionHeadBytes) return true;
    rows.push_back({std::string(session), static_cast<uint32_t>(ReadBigEndian(key, prefix.size(), 4)),
                    static_cast<uint32_t>(ReadBigEndian(value, 0, 4)), ReadBigEndian(value, 4, 8),
                    std::string(value.substr(kPositionHeadBytes))});
    return true;
  }));
  return rows;
}

absl::StatusOr<std::vector<SessionNameRow>> RocksDbStore::SessionNames(std::string_view session) const {
  STEPSCOPE_RETURN_IF_ERROR(CheckSession(session));
  std::vector<SessionNameRow> rows;
  const std::string prefix = SessionNamePrefix(session);
  STEPSCOPE_RETURN_IF_ERROR(Scan(Family::kPosition, prefix, PrefixEnd(prefix), [&](std::string_view key, std::string_view value) {
    if (key.size() != prefix.size() + 8) return true;
    rows.push_back({std::string(session), static_cast<uint32_t>(ReadBigEndian(key, prefix.size(), 4)),
                    static_cast<uint32_t>(ReadBigEndian(key, prefix.size() + 4, 4)), std::string(value)});
    return true;
  }));
  return rows;
}

absl::Status RocksDbStore::ForgetSession(std::string_view session) {
  STEPSCOPE_RETURN_IF_ERROR(CheckSession(session));
  rocksdb::WriteBatch batch;
  batch.Delete(Cf(Family::kMeta), EncodeMetaKey("session", session));
  const std::string begin(session), end = PrefixEnd(begin);
  STEPSCOPE_RETURN_IF_ERROR(Scan(Family::kPosition, begin, end, [&](std::string_view key, std::string_view) {
    return batch.Delete(Cf(Family::kPosition), key).ok();
  }));
  const absl::MutexLock lock(&commit_mutex_);
  return Write(batch, "forget a session");
}

absl::Status RocksDbStore::PutUpload(RunId run, uint32_t part, std::string_view value) {
  rocksdb::WriteBatch batch;
  batch.Put(Cf(Family::kUpload), EncodeRunKey(run, part), value);
  const absl::MutexLock lock(&commit_mutex_);
  return Write(batch, "write upload progress");
}

absl::Status RocksDbStore::ForEachUpload(RunId run, const std::function<bool(uint32_t, std::string_view)>& visit) const {
  return ScanNumbers(Family::kUpload, run, 0, UINT32_MAX, visit);
}

absl::StatusOr<uint32_t> RocksDbStore::NextSeq(RunId run, uint16_t shard) const {
  STEPSCOPE_ASSIGN_OR_RETURN(const std::optional<std::string> value, GetMeta(RunMetaKind(kSeqKind, run), EncodeSeqId(shard)));
  if (!value) return 0u;
  if (value->size() == 4) return static_cast<uint32_t>(ReadBigEndian(*value, 0, 4));
  uint32_t next = 0;  // the row is damaged: a number must not be given twice
  STEPSCOPE_RETURN_IF_ERROR(Scan(Family::kBlocks, RunPrefix(run), PrefixEnd(RunPrefix(run)), [&](std::string_view key, auto) {
    const std::optional<BlockKey> block = DecodeBlockKey(key);
    if (block && block->shard == shard) next = std::max(next, block->seq + 1);
    return true;
  }));
  return next;
}

absl::StatusOr<std::vector<std::string>> RocksDbStore::MetaKindsOf(RunId run) const {
  const std::string suffix = RunMetaKind("", run);
  std::vector<std::string> kinds;
  const std::unique_ptr<rocksdb::Iterator> at(open_->db().NewIterator({}, Cf(Family::kMeta)));
  at->SeekToFirst();
  while (at->Valid()) {
    const std::string kind(at->key().ToStringView().substr(0, at->key().ToStringView().find('\0')));
    if (kind.ends_with(suffix)) kinds.push_back(kind);
    at->Seek(PrefixEnd(EncodeMetaKey(kind, "")));  // one seek a kind, however many rows it has
  }
  STEPSCOPE_RETURN_IF_ERROR(Wrap(at->status(), "list meta kinds"));
  return kinds;
}

absl::Status RocksDbStore::Compact(Family family, const std::string& begin, const std::string& end) {
  return Wrap(CompactKeys(*open_, family, begin, end), "give back disk space");
}

absl::Status RocksDbStore::DeleteRun(RunId run) {
  constexpr std::array kByRun = {Family::kNames, Family::kBlocks, Family::kRollup, Family::kTiles, Family::kUpload};
  const std::string begin = RunPrefix(run), end = PrefixEnd(begin);
  STEPSCOPE_ASSIGN_OR_RETURN(const std::vector<std::string> kinds, MetaKindsOf(run));
  rocksdb::WriteBatch batch;
  // Run 0xFFFFFFFF, the only one whose range has no end, is never allotted.
  for (Family family : kByRun) batch.DeleteRange(Cf(family), begin, end);
  for (const std::string& kind : kinds) {
    const std::string prefix = EncodeMetaKey(kind, "");
    batch.DeleteRange(Cf(Family::kMeta), prefix, PrefixEnd(prefix));
  }
  batch.Delete(Cf(Family::kMeta), EncodeMetaKey("run", RunMetaId(run)));
  {
    const absl::MutexLock lock(&commit_mutex_);
    STEPSCOPE_RETURN_IF_ERROR(Write(batch, "delete a run"));
    std::erase_if(next_seq_, [&](const auto& item) { return item.first.first == run.value; });
  }
  // The write-ahead log still holds the rows; it goes once no family needs it.
  STEPSCOPE_RETURN_IF_ERROR(Wrap(open_->db().Flush(rocksdb::FlushOptions(), open_->families()), "flush after deleting a run"));
  for (Family family : kByRun) STEPSCOPE_RETURN_IF_ERROR(Compact(family, begin, end));
  return Wrap(CollectBlobGarbage(*open_), "give back disk space");
}

absl::Status RocksDbStore::Reclaim(std::span<const BlockRange> ranges) {
  STEPSCOPE_RETURN_IF_ERROR(Wrap(open_->db().Flush(rocksdb::FlushOptions(), open_->families()), "flush before reclaiming"));
  for (const BlockRange& range : ranges) {
    const std::string begin = EncodeBlockKey({range.run, range.table, range.first_slot, 0, 0});
    const std::string end = EncodeBlockKey({range.run, range.table, range.last_slot, UINT16_MAX, UINT32_MAX});
    STEPSCOPE_RETURN_IF_ERROR(Compact(Family::kBlocks, begin, end));
  }
  return Wrap(CollectBlobGarbage(*open_), "give back disk space");
}

absl::StatusOr<uint64_t> RocksDbStore::DiskBytes() const {
  uint64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(options_.path, error)) {
    struct stat file{};  // compaction deletes files while we look
    if (lstat(entry.path().c_str(), &file) == 0) bytes += static_cast<uint64_t>(file.st_blocks) * 512;
  }
  if (error) return ErrnoStatus(error.value(), fmt::format("list store {}", options_.path));
  return bytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const Options& options) {
  STEPSCOPE_ASSIGN_OR_RETURN(std::unique_ptr<OpenDb> open, OpenRocksDb(options));
  return std::unique_ptr<Store>(std::make_unique<RocksDbStore>(options, std::move(open)));
}

}  // namespace stepscope
