// SPDX-License-Identifier: Apache-2.0
// Decoder of the block format. Its input is untrusted: every count and size is checked against a limit and against the bytes
// that are left before anything is allocated from it.
#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <memory>

#include "base/status.h"
#include "trace/block.h"
#include "trace/block_format.h"
#include "trace/varint.h"

namespace stepscope {
namespace {

using block_format::Encoding;

absl::Status Damaged(std::string_view what) { return absl::DataLossError(fmt::format("damaged block: {}", what)); }

struct HeaderAndBody {
  BlockHeader header;
  uint64_t body_bytes = 0;
  std::string_view body;  ///< zstd frame
};

absl::StatusOr<HeaderAndBody> ReadHeader(std::string_view bytes) {
  if (bytes.size() < block_format::kFixedHeaderBytes || bytes.substr(0, 4) != block_format::kMagic) {
    return Damaged("it does not begin with SSBK");
  }
  const int major = static_cast<uint8_t>(bytes[4]);
  if (major != kBlockMajorVersion) {
    return absl::UnimplementedError(
        fmt::format("the block has format version {}.{} and this release reads version {}; use a {} stepscope", major,
                    static_cast<uint8_t>(bytes[5]), kBlockMajorVersion, major > kBlockMajorVersion ? "newer" : "older"));
  }
  const size_t field_bytes = static_cast<uint8_t>(bytes[6]) | static_cast<size_t>(static_cast<uint8_t>(bytes[7])) << 8;
  if (field_bytes > bytes.size() - block_format::kFixedHeaderBytes) return Damaged("its header is cut short");

  VarintReader in(bytes.substr(block_format::kFixedHeaderBytes, field_bytes));
  HeaderAndBody read;
  read.body = bytes.substr(block_format::kFixedHeaderBytes + field_bytes);
  BlockHeader& header = read.header;
  header.minor_version = static_cast<uint8_t>(bytes[5]);
  const uint64_t table = in.Next(), run = in.Next(), rows = in.Next();
  header.min_time.ns = in.NextSigned();
  header.max_time.ns = static_cast<int64_t>(static_cast<uint64_t>(header.min_time.ns) + in.Next());
  read.body_bytes = in.Next();
  const uint64_t maps = in.Next();
  if (!in.ok() || table > UINT16_MAX || run > UINT32_MAX || maps > block_format::kMaxClockMaps || maps > in.left()) {
    return Damaged("a header field is out of range");
  }
  if (rows > kMaxBlockRows) return Damaged(fmt::format("it claims {} rows, the limit is {}", rows, kMaxBlockRows));
  if (read.body_bytes > block_format::kMaxBodyBytes) return Damaged(fmt::format("it claims a body of {} bytes", read.body_bytes));
  header.table = static_cast<TableId>(table);
  header.run = {static_cast<uint32_t>(run)};
  header.rows = static_cast<uint32_t>(rows);
  header.clock_maps.reserve(maps);
  for (uint64_t i = 0; i < maps; ++i) header.clock_maps.push_back(static_cast<uint32_t>(in.Next()));
  if (!in.ok()) return Damaged("its clock maps are cut short");
  return read;
}

struct ZstdDeleter {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

absl::StatusOr<std::string> Unpack(const HeaderAndBody& block) {
  thread_local std::unique_ptr<ZSTD_DCtx, ZstdDeleter> zstd(ZSTD_createDCtx());
  if (ZSTD_getFrameContentSize(block.body.data(), block.body.size()) != block.body_bytes) {
    return Damaged("header and zstd frame disagree on the size of the body");
  }
  std::string body(block.body_bytes, '\0');
  const size_t size = ZSTD_decompressDCtx(zstd.get(), body.data(), body.size(), block.body.data(), block.body.size());
  if (ZSTD_isError(size)) return Damaged(fmt::format("zstd says: {}", ZSTD_getErrorName(size)));
  if (size != block.body_bytes) return Damaged("the body is shorter than the header says");
  return body;
}

/// Rows of a column's planes that are wanted: `rows` of them from `first` on, counted in the block as it is stored.
struct StoredRows {
  size_t first = 0;
  size_t rows = 0;
};

/// Reads the lane list, keeps the lanes of `wanted` (empty: all) and returns where their rows are stored.
absl::StatusOr<std::vector<StoredRows>> ReadLanes(VarintReader& in, std::span<const uint32_t> wanted, DecodedBlock& block) {
  const uint64_t count = in.Next();
  if (!in.ok() || count > block.header.rows) return Damaged("it has more lanes than rows");
  block.lanes.reserve(count);
  if (wanted.empty()) block.batch.lane.reserve(block.header.rows);
  std::vector<StoredRows> kept;
  uint64_t lane = 0, first_row = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t step = in.Next(), rows = in.Next(), error_ns = in.Next(), flags = in.Next();
    lane += step;
    if (!in.ok() || step > UINT32_MAX || lane > UINT32_MAX || (i > 0 && step == 0)) return Damaged("its lanes are not ascending");
    if (rows == 0 || rows > block.header.rows - first_row) return Damaged("its lanes do not add up to its rows");
    if (wanted.empty() || std::ranges::binary_search(wanted, static_cast<uint32_t>(lane))) {
      block.lanes.push_back({static_cast<uint32_t>(lane), static_cast<uint32_t>(block.batch.lane.size()),
                             static_cast<uint32_t>(rows), error_ns, (flags & block_format::kLaneLossy) != 0});
      block.batch.lane.insert(block.batch.lane.end(), rows, static_cast<uint32_t>(lane));
      if (!wanted.empty()) kept.push_back({first_row, rows});
    }
    first_row += rows;
  }
  if (first_row != block.header.rows) return Damaged("its lanes do not add up to its rows");
  if (wanted.empty() && first_row > 0) kept.push_back({0, first_row});
  return kept;
}

int64_t Add(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); }

/// A column whose `value` holds residuals and is turned into values in place.
struct ColumnTarget {
  std::span<const BlockLane> lanes;
  std::span<const StoredRows> stored;
  size_t stored_rows = 0;  ///< of the whole block
  std::vector<int64_t>& value;
  const std::vector<int64_t>* reference = nullptr;
  int64_t base = 0;
};

/// value[i] = next(residual, i) for every row.
template <typename Next>
void FillRows(const ColumnTarget& target, Next next) {
  for (size_t i = 0; i < target.value.size(); ++i) target.value[i] = next(static_cast<uint64_t>(target.value[i]), i);
}

/// value[i] = next(residual, previous value of the lane) for every row.
template <typename Next>
void FillLanes(const ColumnTarget& target, Next next) {
  for (const BlockLane& lane : target.lanes) {
    int64_t previous = target.base;
    for (size_t i = lane.first_row; i < size_t{lane.first_row} + lane.rows; ++i) {
      previous = target.value[i] = next(static_cast<uint64_t>(target.value[i]), previous);
    }
  }
}

void FillAfterEnds(const ColumnTarget& target) {
  for (const BlockLane& lane : target.lanes) {
    int64_t end = target.base;
    for (size_t i = lane.first_row; i < size_t{lane.first_row} + lane.rows; ++i) {
      target.value[i] = Add(end, UnZigZag(static_cast<uint64_t>(target.value[i])));
      end = Add(target.value[i], (*target.reference)[i]);
    }
  }
}

absl::StatusOr<std::vector<int64_t>> ReadDictionary(VarintReader& in) {
  const uint64_t count = in.Next();
  if (!in.ok() || count > block_format::kMaxDictionary || count > in.left()) return Damaged("a dictionary is too big");
  std::vector<int64_t> dictionary(count);
  for (int64_t& value : dictionary) value = in.NextSigned();
  return dictionary;
}

/// Joins the byte planes that fill the rest of the column: plane p holds bits 8p … 8p + 7 of every row's residual.
absl::Status ReadPlanes(VarintReader& in, const ColumnTarget& target) {
  const size_t rows = target.stored_rows;
  if (rows == 0 || in.left() % rows != 0 || in.left() / rows > 8) return Damaged("a column has too few or too many bytes");
  for (unsigned shift = 0; in.left() > 0; shift += 8) {
    const std::string_view plane = in.Take(rows);
    int64_t* residual = target.value.data();
    for (const StoredRows& wanted : target.stored) {
      const char* byte = plane.data() + wanted.first;
      for (size_t i = 0; i < wanted.rows; ++i) {
        residual[i] = static_cast<int64_t>(static_cast<uint64_t>(residual[i]) | uint64_t{static_cast<uint8_t>(byte[i])} << shift);
      }
      residual += wanted.rows;
    }
  }
  return absl::OkStatus();
}

absl::Status FillFromDictionary(const ColumnTarget& target, const std::vector<int64_t>& dictionary) {
  bool known = true;
  FillRows(target, [&](uint64_t index, size_t) {
    known = known && index < dictionary.size();
    return index < dictionary.size() ? dictionary[index] : 0;
  });
  return known ? absl::OkStatus() : Damaged("a dictionary index points past its dictionary");
}

absl::Status ReadValues(VarintReader& in, Encoding encoding, const ColumnTarget& target) {
  if (encoding == Encoding::kConstant) {
    std::fill(target.value.begin(), target.value.end(), in.NextSigned());
    return in.ok() && in.left() == 0 ? absl::OkStatus() : Damaged("a constant column has too few or too many bytes");
  }
  std::vector<int64_t> dictionary;
  if (encoding == Encoding::kDictionary) {
    STEPSCOPE_ASSIGN_OR_RETURN(dictionary, ReadDictionary(in));
  }
  if (!in.ok()) return Damaged("a column is cut short");
  STEPSCOPE_RETURN_IF_ERROR(ReadPlanes(in, target));
  switch (encoding) {
    case Encoding::kConstant:
    case Encoding::kUnsigned:
      break;
    case Encoding::kSigned:
      FillRows(target, [](uint64_t r, size_t) { return UnZigZag(r); });
      break;
    case Encoding::kDelta:
      FillLanes(target, [](uint64_t r, int64_t p) { return Add(p, UnZigZag(r)); });
      break;
    case Encoding::kXor:
      FillLanes(target, [](uint64_t r, int64_t p) { return p ^ static_cast<int64_t>(__builtin_bswap64(r)); });
      break;
    case Encoding::kOffset:
      FillRows(target, [&](uint64_t r, size_t i) { return Add((*target.reference)[i], UnZigZag(r)); });
      break;
    case Encoding::kAfterEnd:
      FillAfterEnds(target);
      break;
    case Encoding::kDictionary:
      return FillFromDictionary(target, dictionary);
  }
  return absl::OkStatus();
}

class ColumnReader {
 public:
  ColumnReader(const TableSpec& table, std::span<const StoredRows> stored, DecodedBlock& block)
      : table_(table), stored_(stored), block_(block), read_(table.columns.size()) {}

  absl::Status ReadAll(VarintReader& in) {
    const uint64_t count = in.Next();
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t id = in.Next(), encoding = in.Next();
      const std::string_view payload = in.Take(in.Next());
      if (!in.ok()) return Damaged("its columns are cut short");
      STEPSCOPE_RETURN_IF_ERROR(ReadColumn(id, encoding, payload));
    }
    return in.ok() && in.left() == 0 ? absl::OkStatus() : Damaged("bytes follow its last column");
  }

 private:
  size_t PositionOf(uint64_t id) const {
    size_t c = 0;
    while (c < table_.columns.size() && table_.columns[c].id != id) ++c;
    return c;
  }

  absl::Status ReadColumn(uint64_t id, uint64_t encoding, std::string_view payload) {
    const size_t column = PositionOf(id);
    if (column == read_.size()) return absl::OkStatus();  // written by a newer release
    if (encoding > static_cast<uint64_t>(Encoding::kAfterEnd))
      return Damaged(fmt::format("column encoding {} does not exist", encoding));
    if (read_[column]) return Damaged(fmt::format("column {} comes twice", id));
    VarintReader in(payload);
    ColumnTarget target{block_.lanes,
                        stored_,
                        block_.header.rows,
                        block_.batch.columns[column],
                        nullptr,
                        column == 0 ? block_.header.min_time.ns : 0};
    const auto kind = static_cast<Encoding>(encoding);
    if (kind == Encoding::kOffset || kind == Encoding::kAfterEnd) {
      const size_t reference = PositionOf(in.Next());
      if (reference == read_.size() || !read_[reference])
        return Damaged(fmt::format("column {} refers to a column not read yet", id));
      target.reference = &block_.batch.columns[reference];
    }
    read_[column] = true;
    return ReadValues(in, kind, target);
  }

  const TableSpec& table_;
  const std::span<const StoredRows> stored_;
  DecodedBlock& block_;
  std::vector<bool> read_;
};

}  // namespace

absl::StatusOr<BlockHeader> PeekHeader(std::string_view bytes) {
  STEPSCOPE_ASSIGN_OR_RETURN(HeaderAndBody block, ReadHeader(bytes));
  return std::move(block.header);
}

absl::StatusOr<DecodedBlock> DecodeBlock(std::string_view bytes, std::span<const uint32_t> lanes) {
  STEPSCOPE_ASSIGN_OR_RETURN(HeaderAndBody packed, ReadHeader(bytes));
  const TableSpec* table = FindTable(packed.header.table);
  if (table == nullptr) {
    return absl::UnimplementedError(
        fmt::format("the block holds table {}, which this release does not know; use a newer stepscope",
                    static_cast<int>(packed.header.table)));
  }
  STEPSCOPE_ASSIGN_OR_RETURN(const std::string body, Unpack(packed));
  DecodedBlock block;
  block.header = std::move(packed.header);
  block.batch = Batch::For(table->id, block.header.run);
  block.batch.interned = true;
  VarintReader in(body);
  STEPSCOPE_ASSIGN_OR_RETURN(const std::vector<StoredRows> stored, ReadLanes(in, lanes, block));
  if (stored.empty() && !lanes.empty()) return block;
  for (std::vector<int64_t>& column : block.batch.columns) column.resize(block.batch.rows());
  STEPSCOPE_RETURN_IF_ERROR(ColumnReader(*table, stored, block).ReadAll(in));
  return block;
}

}  // namespace stepscope
