// SPDX-License-Identifier: Apache-2.0
// Keys of the store, big-endian so that byte order is number order (docs/formats/keys.md). Every key of a run begins with the
// run, so a run is one range per column family.
//
//   blocks    run u32 | table u16 | slot u32 | shard u16 | seq u32          names   run u32 | name u32
//   tiles     run u32 | lane u32 | level u8 | index u64                     rollup  run u32 | minute u32
//   position  session 16 | 0 | ring u32      a ring's position              upload  run u32 | part u32
//             session 16 | 1 | ring u32 | id u32  a ring's name             meta    kind | NUL | id
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/time.h"
#include "storage/store.h"

namespace stepscope {

constexpr size_t kSessionBytes = 16;
/// Rows longer than this live in the long stripe, so that a query looks only this far past its end.
constexpr int64_t kLongRowNs = 10 * kNsPerSecond;

/// Second of node time in which a row that ends at `row_end` is stored. Times before the boot count as second 0.
uint32_t SlotOf(NodeTime row_end);
/// Slot of a row: SlotOf(start + dur), or kLongSlot when it is longer than kLongRowNs.
uint32_t SlotForRow(NodeTime start, int64_t dur_ns);

std::string EncodeBlockKey(const BlockKey& key);
std::optional<BlockKey> DecodeBlockKey(std::string_view key);
/// First bytes of all blocks of (run, table).
std::string BlockPrefix(RunId run, TableId table);

std::string EncodeTileKey(RunId run, uint32_t lane, uint8_t level, uint64_t index);
/// names, rollup and upload keys: the run, then one number.
std::string EncodeRunKey(RunId run, uint32_t number);
/// The number of such a key; nullopt if it is none.
std::optional<uint32_t> DecodeRunKeyNumber(std::string_view key);
std::string RunPrefix(RunId run);

std::string EncodeMetaKey(std::string_view kind, std::string_view id);
/// Meta kind of rows that belong to one run ("entity" → "entity/7"); DeleteRun removes them with the run.
std::string RunMetaKind(std::string_view kind, RunId run);
/// Meta id of the row of kind "run" that describes `run`; DeleteRun removes it too.
std::string RunMetaId(RunId run);

std::string EncodePositionKey(std::string_view session, uint32_t ring);
std::string EncodeSessionNameKey(std::string_view session, uint32_t ring, uint32_t id);
std::string PositionPrefix(std::string_view session);
std::string SessionNamePrefix(std::string_view session);

/// Big-endian number in the `bytes` bytes at `at`; the caller has checked that they are there.
uint64_t ReadBigEndian(std::string_view key, size_t at, size_t bytes);
void AppendBigEndian(std::string& key, uint64_t value, size_t bytes);

/// Smallest key greater than every key that begins with `prefix`; empty when there is none.
std::string PrefixEnd(std::string prefix);

}  // namespace stepscope
