// SPDX-License-Identifier: Apache-2.0
#include "trace/entity.h"

#include "trace/varint.h"

namespace stepscope {
namespace {

enum Field : uint64_t {
  kKind = 1,
  kA = 2,
  kB = 3,
  kC = 4,
  kText = 5,
  kDisplay = 6,
  kInnerIds = 7,
  kRankPlusOne = 8,
  kGilBegin = 9,
  kGilEnd = 10
};
enum WireType : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void PutNumber(std::string& out, Field field, uint64_t value) {
  if (value == 0) return;
  AppendVarint(out, field << 3 | kVarint);
  AppendVarint(out, value);
}

void PutBytes(std::string& out, Field field, std::string_view bytes) {
  if (bytes.empty()) return;
  AppendVarint(out, field << 3 | kBytes);
  AppendVarint(out, bytes.size());
  out += bytes;
}

void SetNumber(Entity& entity, uint64_t field, uint64_t value) {
  switch (field) {
    case kKind:
      entity.key.kind = static_cast<EntityKind>(value);
      break;
    case kA:
      entity.key.a = UnZigZag(value);
      break;
    case kB:
      entity.key.b = UnZigZag(value);
      break;
    case kC:
      entity.key.c = UnZigZag(value);
      break;
    case kRankPlusOne:
      entity.attributes.rank = static_cast<int32_t>(value) - 1;
      break;
    case kGilBegin:
      entity.attributes.gil.begin = value;
      break;
    case kGilEnd:
      entity.attributes.gil.end = value;
      break;
    case kInnerIds:
      entity.attributes.inner_ids.push_back(static_cast<int32_t>(value));
      break;
    default:
      break;
  }
}

bool SetBytes(Entity& entity, uint64_t field, std::string_view bytes) {
  if (field == kText) entity.key.text = bytes;
  if (field == kDisplay) entity.attributes.display = bytes;
  if (field != kInnerIds) return true;
  VarintReader ids(bytes);
  while (ids.left() > 0) SetNumber(entity, kInnerIds, ids.Next());
  return ids.ok();
}

}  // namespace

std::string EncodeEntity(const Entity& entity) {
  std::string out;
  PutNumber(out, kKind, static_cast<uint64_t>(entity.key.kind));
  PutNumber(out, kA, ZigZag(entity.key.a));
  PutNumber(out, kB, ZigZag(entity.key.b));
  PutNumber(out, kC, ZigZag(entity.key.c));
  PutBytes(out, kText, entity.key.text);
  PutBytes(out, kDisplay, entity.attributes.display);
  std::string ids;
  // A negative int32 is ten bytes in protobuf: sign-extended to 64 bits.
  for (int32_t id : entity.attributes.inner_ids) AppendVarint(ids, static_cast<uint64_t>(int64_t{id}));
  PutBytes(out, kInnerIds, ids);
  PutNumber(out, kRankPlusOne, static_cast<uint64_t>(int64_t{entity.attributes.rank} + 1));
  PutNumber(out, kGilBegin, entity.attributes.gil.begin);
  PutNumber(out, kGilEnd, entity.attributes.gil.end);
  return out;
}

absl::StatusOr<Entity> DecodeEntity(std::string_view bytes) {
  Entity entity;
  VarintReader in(bytes);
  bool sound = true;
  while (sound && in.left() > 0) {
    const uint64_t tag = in.Next();
    switch (tag & 7) {
      case kVarint:
        SetNumber(entity, tag >> 3, in.Next());
        break;
      case kBytes:
        sound = SetBytes(entity, tag >> 3, in.Take(in.Next()));
        break;
      case kFixed64:
        in.Take(8);
        break;
      case kFixed32:
        in.Take(4);
        break;
      default:
        sound = false;
    }
  }
  if (!sound || !in.ok()) return absl::DataLossError("damaged entity row: its fields do not parse");
  return entity;
}

std::string EntityMetaId(EntityId id) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(id.value >> shift & 0xFF);
  return bytes;
}

EntityId EntityOfMetaId(std::string_view meta_id) {
  if (meta_id.size() != 4) return {};
  EntityId id;
  for (char byte : meta_id) id.value = id.value << 8 | static_cast<uint8_t>(byte);
  return id;
}

}  // namespace stepscope
