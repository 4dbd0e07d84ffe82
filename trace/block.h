// SPDX-License-Identifier: Apache-2.0
// Block: how rows are stored and shipped. Up to 65,536 rows of one table of one run, in lane order, as columns of
// byte planes under zstd. The bytes are documented with a worked example in docs/formats/block.md.
//
//   header (plain)  magic, version, table, run, rows, min and max time, clock maps, size of the body
//   body (zstd)     lane list {id, rows, clock error, loss}, then columns {id, encoding, size, values}
//
// A reader skips columns it does not know, reads columns that are absent as 0, and refuses a newer major version.
// Functions here may be called from any thread. DecodeBlock and PeekHeader accept untrusted bytes (tests/fuzz/block_fuzz.cc).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/time.h"
#include "trace/batch.h"
#include "trace/schema.h"

namespace stepscope {

constexpr uint32_t kMaxBlockRows = 65'536;
constexpr uint8_t kBlockMajorVersion = 1;
constexpr uint8_t kBlockMinorVersion = 0;

/// What is known of a lane's rows beside the rows. Lanes without a note have error 0 and no loss.
struct LaneNote {
  uint32_t lane = 0;            ///< EntityId value
  uint64_t clock_error_ns = 0;  ///< widest error bound of the lane's times
  bool lossy = false;           ///< rows of this lane are missing inside this block; the `loss` table says which
};

/// What the writer knows beside the batch.
struct BlockNotes {
  std::vector<uint32_t> clock_maps;  ///< ids of the maps that placed the rows, so that raw readings can be computed back
  std::vector<LaneNote> lanes;       ///< any order, each lane at most once; lanes without rows are dropped
};

struct BlockHeader {
  uint8_t minor_version = 0;
  TableId table{};
  RunId run;
  uint32_t rows = 0;
  NodeTime min_time;  ///< earliest start; 0 in an empty block
  NodeTime max_time;  ///< latest end (start + dur; start itself in tables without a duration), saturated
  std::vector<uint32_t> clock_maps;
};

/// Rows [first_row, first_row + rows) of the decoded batch, sorted by start.
struct BlockLane {
  uint32_t lane = 0;
  uint32_t first_row = 0;
  uint32_t rows = 0;
  uint64_t clock_error_ns = 0;
  bool lossy = false;
};

struct DecodedBlock {
  BlockHeader header;
  std::vector<BlockLane> lanes;  ///< ascending by lane
  Batch batch;                   ///< interned, node time, in lane order
};

/// Rows may come in any order; they are stored by lane, within a lane by start, ties in the order given. INVALID_ARGUMENT
/// for a batch that is not interned, has more than kMaxBlockRows rows, or columns of unequal length.
absl::StatusOr<std::string> EncodeBlock(const Batch& batch, const BlockNotes& notes = {});

/// UNIMPLEMENTED for a newer format or an unknown table, DATA_LOSS for damaged bytes. With `lanes` (ascending) only their rows:
/// the rest is unpacked, which is cheap, and not decoded, which is most of the work; header.rows still counts all.
absl::StatusOr<DecodedBlock> DecodeBlock(std::string_view bytes, std::span<const uint32_t> lanes = {});

/// Reads the plain header only: no decompression, no work per row.
absl::StatusOr<BlockHeader> PeekHeader(std::string_view bytes);

}  // namespace stepscope
