// SPDX-License-Identifier: Apache-2.0
#include "storage/keys.h"

#include <fmt/format.h>

#include <algorithm>

namespace stepscope {
namespace {

constexpr size_t kBlockKeyBytes = 16;
constexpr char kPositionTag = 0;
constexpr char kSessionNameTag = 1;

}  // namespace

uint64_t ReadBigEndian(std::string_view key, size_t at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value = value << 8 | static_cast<uint8_t>(key[at + i]);
  return value;
}

void AppendBigEndian(std::string& key, uint64_t value, size_t bytes) {
  for (size_t i = bytes; i-- > 0;) key += static_cast<char>(value >> (8 * i) & 0xFF);
}

uint32_t SlotOf(NodeTime row_end) {
  return static_cast<uint32_t>(std::clamp<int64_t>(row_end.ns / kNsPerSecond, 0, kLongSlot - 1));
}

uint32_t SlotForRow(NodeTime start, int64_t dur_ns) {
  if (dur_ns > kLongRowNs) return kLongSlot;
  int64_t end = 0;
  if (__builtin_add_overflow(start.ns, dur_ns, &end)) return kLongSlot;
  return SlotOf({end});
}

std::string EncodeBlockKey(const BlockKey& key) {
  std::string bytes = BlockPrefix(key.run, key.table);
  AppendBigEndian(bytes, key.slot, 4);
  AppendBigEndian(bytes, key.shard, 2);
  AppendBigEndian(bytes, key.seq, 4);
  return bytes;
}

std::optional<BlockKey> DecodeBlockKey(std::string_view key) {
  if (key.size() != kBlockKeyBytes) return std::nullopt;
  return BlockKey{.run = {static_cast<uint32_t>(ReadBigEndian(key, 0, 4))},
                  .table = static_cast<TableId>(ReadBigEndian(key, 4, 2)),
                  .slot = static_cast<uint32_t>(ReadBigEndian(key, 6, 4)),
                  .shard = static_cast<uint16_t>(ReadBigEndian(key, 10, 2)),
                  .seq = static_cast<uint32_t>(ReadBigEndian(key, 12, 4))};
}

std::string BlockPrefix(RunId run, TableId table) {
  std::string bytes = RunPrefix(run);
  AppendBigEndian(bytes, static_cast<uint16_t>(table), 2);
  return bytes;
}

std::string EncodeTileKey(RunId run, uint32_t lane, uint8_t level, uint64_t index) {
  std::string bytes = RunPrefix(run);
  AppendBigEndian(bytes, lane, 4);
  AppendBigEndian(bytes, level, 1);
  AppendBigEndian(bytes, index, 8);
  return bytes;
}

std::string EncodeRunKey(RunId run, uint32_t number) {
  std::string bytes = RunPrefix(run);
  AppendBigEndian(bytes, number, 4);
  return bytes;
}

std::optional<uint32_t> DecodeRunKeyNumber(std::string_view key) {
  if (key.size() != 8) return std::nullopt;
  return static_cast<uint32_t>(ReadBigEndian(key, 4, 4));
}

std::string RunPrefix(RunId run) {
  std::string bytes;
  AppendBigEndian(bytes, run.value, 4);
  return bytes;
}

std::string EncodeMetaKey(std::string_view kind, std::string_view id) {
  std::string bytes(kind);
  bytes += '\0';
  return bytes.append(id);
}

std::string RunMetaKind(std::string_view kind, RunId run) { return fmt::format("{}/{}", kind, run.value); }

std::string RunMetaId(RunId run) { return RunPrefix(run); }

std::string PositionPrefix(std::string_view session) { return std::string(session) + kPositionTag; }

std::string SessionNamePrefix(std::string_view session) { return std::string(session) + kSessionNameTag; }

std::string EncodePositionKey(std::string_view session, uint32_t ring) {
  std::string bytes = PositionPrefix(session);
  AppendBigEndian(bytes, ring, 4);
  return bytes;
}

std::string EncodeSessionNameKey(std::string_view session, uint32_t ring, uint32_t id) {
  std::string bytes = SessionNamePrefix(session);
  AppendBigEndian(bytes, ring, 4);
  AppendBigEndian(bytes, id, 4);
  return bytes;
}

std::string PrefixEnd(std::string prefix) {
  while (!prefix.empty() && static_cast<uint8_t>(prefix.back()) == 0xFF) prefix.pop_back();
  if (!prefix.empty()) prefix.back() = static_cast<char>(static_cast<uint8_t>(prefix.back()) + 1);
  return prefix;
}

}  // namespace stepscope
