// SPDX-License-Identifier: Apache-2.0
// RunUpload: the upload of one run. Its steps are idempotent and their progress is in the store, so a daemon that is killed
// anywhere repeats at most the object it was writing, under the same path, with the same rows.
//
//   block stored ──Collect──► pending ──WritePart──► PLANNED (blocks fixed, in the store) ──objects, manifest──► DONE
//   run ended, all parts DONE ──Close──► closing manifest, closing row
//
// Thread rule: the uploader's thread; numbers for others are copied out by it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/pipeline/damaged_blocks.h"
#include "daemon/pipeline/table_reader.h"
#include "daemon/upload/block_cover.h"
#include "daemon/upload/object_path.h"
#include "daemon/upload/run_directory.h"
#include "storage/parquet/dataset.h"
#include "storage/parquet/table_file.h"
#include "storage/store.h"

namespace stepscope {

struct ClosingFacts;

class RunUpload {
 public:
  struct Seams {
    Store* store;
    const RunDictionary* dictionary;
    const Clock* clock;
    DamagedBlocks* damaged = nullptr;  ///< learns of blocks that cannot be read
  };
  RunUpload(const Seams& seams, UploadRun run, int64_t part_bytes);

  /// Reads the progress of an earlier process.
  absl::Status Load();
  enum class Reach {
    kRecent,      ///< slots since shortly before the newest one seen: cheap, may miss a block that was stored late
    kEverything,  ///< all blocks of the run
  };
  /// Finds stored blocks that no part covers.
  absl::Status Collect(Reach reach);
  /// Finishes parts an earlier try left planned.
  absl::Status FinishPlanned(Dataset& dataset);
  /// Cuts one part from the pending blocks and uploads it.
  absl::Status WritePart(Dataset& dataset);
  /// Checks that the objects of earlier processes are there, then writes the closing manifest. Nothing may be pending.
  absl::Status Close(Dataset& dataset);

  bool closed() const { return closed_; }
  bool HasPending() const { return !pending_.empty(); }
  bool HasPlanned() const;
  uint64_t pending_bytes() const { return pending_bytes_; }
  /// When the oldest pending block was first seen; nullopt when nothing is pending.
  std::optional<NodeTime> pending_since() const { return HasPending() ? std::optional(pending_since_) : std::nullopt; }
  const std::map<uint32_t, store::v1::UploadPart>& parts() const { return parts_; }
  void set_run(UploadRun run) { run_ = std::move(run); }  ///< its end became known

 private:
  absl::Status CollectTable(TableId table, NodeTime begin);
  void LeaveOut(const BlockKey& key, std::string_view bytes, const absl::Status& why);
  absl::Status Save(uint32_t number);
  absl::Status FinishPart(Dataset& dataset, uint32_t number);
  absl::Status WriteFile(Dataset& dataset, const store::v1::UploadPart& part, store::v1::UploadFile& file,
                         const WallClockMap& wall, const RowTexts& texts);
  void SweepUploads(Dataset& dataset, const std::string& path) const;
  absl::Status FeedBlocks(const store::v1::UploadPart& part, const store::v1::UploadFile& file, TableFile& out);
  absl::StatusOr<bool> Exists(Dataset& dataset, const store::v1::UploadFile& file) const;
  absl::StatusOr<WallClockMap> ReadWallClock();
  absl::Status VerifyEarlierParts(Dataset& dataset);
  absl::StatusOr<std::map<TableId, uint64_t>> StoredRows();
  absl::Status CountEvicted(ClosingFacts* facts) const;

  const Seams seams_;
  UploadRun run_;
  const int64_t part_bytes_;
  const ObjectPaths paths_;
  BlockCover cover_;  ///< of planned, done and pending blocks
  std::vector<PendingBlock> pending_;
  uint64_t pending_bytes_ = 0;
  NodeTime pending_since_;
  uint32_t newest_slot_ = 0;
  std::map<uint32_t, store::v1::UploadPart> parts_;
  std::set<uint32_t> untried_;        ///< parts just planned: no earlier try left an upload of theirs open
  std::set<uint32_t> uploaded_here_;  ///< parts whose objects this process saw complete
  uint64_t damaged_blocks_ = 0;
  int64_t wall_error_ns_ = 0;
  bool closed_ = false;
};

}  // namespace stepscope
