// SPDX-License-Identifier: Apache-2.0
// Store: the node's RocksDB. One process opens it (a second gets FAILED_PRECONDITION naming the holder). Commit() takes one
// Seal and writes it as one WriteBatch: blocks, names, entities, roll-ups, loss rows and the ring positions they consumed land
// together or not at all, which is what makes every agent row exactly once. WAL on; Sync() makes everything committed so far
// power-safe and is called once a second by the writer.
//
// Thread rule: all methods may be called from any thread. Readers use a RocksDB snapshot per call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/time.h"
#include "trace/schema.h"

namespace stepscope {

/// docs/formats/keys.md: run, table, slot (second of node time in which the rows end, or kLongSlot), shard, seq.
struct BlockKey {
  RunId run;
  TableId table{};
  uint32_t slot = 0;
  uint16_t shard = 0;
  uint32_t seq = 0;
  friend auto operator<=>(const BlockKey&, const BlockKey&) = default;
};
constexpr uint32_t kLongSlot = 0xFFFFFFFF;
/// Shards that retention writes (docs/retention.md); sources have the low numbers.
constexpr uint16_t kKeptShard = 0xFFFD;          ///< rows kept of blocks that were evicted before they were uploaded
constexpr uint16_t kKeptUploadedShard = 0xFFFE;  ///< rows kept of blocks that were uploaded: never uploaded again
constexpr uint16_t kEvictedShard = 0xFFFF;       ///< loss rows of what was evicted; the only blocks that are written anew

struct MetaRow {
  std::string kind;   ///< "job", "run", "entity/<run>", "setting", …  (no NUL)
  std::string id;     ///< any bytes; ordered bytewise within its kind
  std::string value;  ///< serialised stepscope.store.v1 message, or empty = delete
};
struct NameRow {
  RunId run;
  NameId id;
  std::string text;
};
/// State of one ring of one session, stored with the rows it led to. `name` rows hold the ring's name dictionary.
struct PositionRow {
  std::string session;  ///< 16 bytes
  uint32_t ring = 0;
  uint32_t generation = 0;
  uint64_t position = 0;      ///< bytes of the ring stored
  std::string decoder_state;  ///< opaque to the store
};
struct SessionNameRow {
  std::string session;
  uint32_t ring = 0;
  uint32_t id = 0;
  std::string value;  ///< opaque to the store
};
struct RollupRow {
  RunId run;
  uint32_t minute = 0;  ///< node time / 60 s
  std::string value;    ///< the whole minute, replaces the previous value
};
struct SealedBlock {
  BlockKey key;
  std::string bytes;
};
/// Blocks of (run, table) in slots [first_slot, last_slot].
struct BlockRange {
  RunId run;
  TableId table{};
  uint32_t first_slot = 0;
  uint32_t last_slot = 0;
};
struct Seal {
  std::vector<BlockKey> dropped;  ///< removed by this seal; Reclaim() gives their disk space back
  std::vector<SealedBlock> blocks;
  std::vector<MetaRow> meta;
  std::vector<NameRow> names;
  std::vector<PositionRow> positions;
  std::vector<SessionNameRow> session_names;
  std::vector<RollupRow> rollups;
};

class Store {
 public:
  struct Options {
    std::string path;
    bool read_only = false;
    /// Disk the store is meant to stay within, 0 = any: the log and the write buffers are a small part of it.
    uint64_t max_bytes = 0;
  };
  static absl::StatusOr<std::unique_ptr<Store>> Open(const Options& options);
  virtual ~Store() = default;

  virtual absl::Status Commit(const Seal& seal) = 0;
  virtual absl::Status Sync() = 0;

  /// Calls `visit` for every block of (run, table) whose rows may overlap [begin, end): slots of begin .. end + 10 s, then the
  /// long stripe. `visit` returns false to stop. Bytes are valid during the call only. A block that the disk does not give back
  /// as it was written is visited with empty bytes; where an index is damaged too, one may stand for those around it.
  virtual absl::Status ForEachBlock(RunId run, TableId table, NodeTime begin, NodeTime end,
                                    const std::function<bool(const BlockKey&, std::string_view)>& visit) const = 0;
  virtual absl::StatusOr<std::optional<std::string>> GetMeta(std::string_view kind, std::string_view id) const = 0;
  virtual absl::Status ForEachMeta(std::string_view kind,
                                   const std::function<bool(std::string_view id, std::string_view value)>& visit) const = 0;
  virtual absl::Status ForEachName(RunId run, const std::function<bool(NameId, std::string_view)>& visit) const = 0;
  virtual absl::Status ForEachRollup(RunId run, uint32_t first_minute, uint32_t last_minute,
                                     const std::function<bool(uint32_t minute, std::string_view)>& visit) const = 0;
  virtual absl::StatusOr<std::vector<PositionRow>> Positions(std::string_view session) const = 0;
  virtual absl::StatusOr<std::vector<SessionNameRow>> SessionNames(std::string_view session) const = 0;
  /// Session is over and fully stored: forget its positions, names and its row of meta kind "session", all or none.
  virtual absl::Status ForgetSession(std::string_view session) = 0;

  /// Upload progress of a run, by part.
  virtual absl::Status PutUpload(RunId run, uint32_t part, std::string_view value) = 0;
  virtual absl::Status ForEachUpload(RunId run, const std::function<bool(uint32_t part, std::string_view)>& visit) const = 0;

  /// Next unused seq for blocks of a run (found once at start-up).
  virtual absl::StatusOr<uint32_t> NextSeq(RunId run, uint16_t shard) const = 0;
  /// Removes every key of the run and gives the disk space back (DeleteRange, CompactRange, blob GC).
  virtual absl::Status DeleteRun(RunId run) = 0;
  /// Gives back the disk space of blocks that were dropped in `ranges`. Moves what is live beside them; takes seconds.
  virtual absl::Status Reclaim(std::span<const BlockRange> ranges) = 0;
  /// Disk that the store's files occupy, as du counts it.
  virtual absl::StatusOr<uint64_t> DiskBytes() const = 0;
};

}  // namespace stepscope
