// SPDX-License-Identifier: Apache-2.0
// Encoder of the block format. Each column picks, on a sample of its rows, the encoding with the fewest bytes; a column that is
// 0 everywhere is not written at all. Hot path: script/bench codec prints its cost per row.
#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>
#include <span>
#include <unordered_map>

#include "base/status.h"
#include "trace/block.h"
#include "trace/block_format.h"
#include "trace/dense_index.h"
#include "trace/lane_order.h"
#include "trace/varint.h"

namespace stepscope {
namespace {

using block_format::Encoding;

constexpr size_t kSmallBodyBytes = 32 << 10;
constexpr int kSmallHashLog = 10;

/// One column in lane order, with what its encodings may refer to.
struct ColumnView {
  const int64_t* value = nullptr;
  const int64_t* reference = nullptr;   ///< kOffset, kAfterEnd
  const uint8_t* lane_start = nullptr;  ///< 1 on the first row of each lane
  int64_t base = 0;                     ///< previous value of a lane's first row
  size_t rows = 0;
};

bool IsConstant(std::span<const int64_t> values) {
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == values[0]; });
}

uint64_t Difference(int64_t a, int64_t b) {
  return ZigZag(static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b)));
}

template <Encoding encoding>
uint64_t Residual(const ColumnView& c, size_t i) {
  const int64_t v = c.value[i];
  if constexpr (encoding == Encoding::kUnsigned) return static_cast<uint64_t>(v);
  if constexpr (encoding == Encoding::kSigned) return ZigZag(v);
  if constexpr (encoding == Encoding::kDelta) return Difference(v, c.lane_start[i] ? c.base : c.value[i - 1]);
  if constexpr (encoding == Encoding::kXor)
    return __builtin_bswap64(static_cast<uint64_t>(v ^ (c.lane_start[i] ? c.base : c.value[i - 1])));
  if constexpr (encoding == Encoding::kOffset) return Difference(v, c.reference[i]);
  if constexpr (encoding == Encoding::kAfterEnd) {
    if (c.lane_start[i]) return Difference(v, c.base);
    const uint64_t end = static_cast<uint64_t>(c.value[i - 1]) + static_cast<uint64_t>(c.reference[i - 1]);
    return Difference(v, static_cast<int64_t>(end));
  }
}

/// Calls `visit(first, last)` for up to 16 stretches of 32 rows spread over the column: enough to choose by.
template <typename Visit>
void ForEachSampleStretch(size_t rows, Visit visit) {
  constexpr size_t kStretches = 16, kLength = 32;
  if (rows <= kStretches * kLength) return visit(size_t{0}, rows);
  for (size_t s = 0; s < kStretches; ++s) {
    const size_t first = s * (rows - kLength) / (kStretches - 1);
    visit(first, first + kLength);
  }
}

/// Significant bits of the sample: close to what zstd makes of byte planes.
template <Encoding encoding>
size_t SampleBits(const ColumnView& column) {
  size_t bits = 0;
  ForEachSampleStretch(column.rows, [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) bits += static_cast<size_t>(std::bit_width(Residual<encoding>(column, i)));
  });
  return bits;
}

/// A writing position over memory that is never zeroed first, unlike std::string::resize.
class Scratch {
 public:
  char* Reserve(size_t bytes) {
    if (bytes > capacity_) {
      data_ = std::make_unique_for_overwrite<char[]>(bytes);
      capacity_ = bytes;
    }
    return data_.get();
  }

 private:
  std::unique_ptr<char[]> data_;
  size_t capacity_ = 0;
};

struct ZstdDeleter {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};

// The three loops below take what they need as arguments: a store through a member would make the compiler reload every member.

/// The column in lane order. Reads in row order and writes one stream a lane: the streams fit the first-level cache, where
/// reading in lane order would miss it on every value.
void ScatterRows(std::span<const int64_t> column, const uint32_t* position_of, int64_t* target) {
  for (size_t row = 0; row < column.size(); ++row) target[position_of[row]] = column[row];
}

void ExtractPlane(std::span<const uint64_t> residual, size_t plane, uint8_t* out) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(residual.data()) + plane;
  for (size_t i = 0; i < residual.size(); ++i) out[i] = bytes[8 * i];
}

template <Encoding encoding>
uint64_t FillResiduals(const ColumnView column, uint64_t* out) {
  uint64_t used = 0;
  for (size_t i = 0; i < column.rows; ++i) used |= out[i] = Residual<encoding>(column, i);
  return used;
}

class BlockEncoder {
 public:
  absl::StatusOr<std::string> Encode(const Batch& batch, const TableSpec& table, const BlockNotes& notes);

 private:
  struct Choice {
    Encoding encoding;
    size_t bits;           ///< of the sample
    size_t reference = 0;  ///< column position, for kOffset and kAfterEnd
  };

  void PrepareLanes(const Batch& batch, const BlockNotes& notes);
  void FindTimes(const Batch& batch, const TableSpec& table);
  void AppendColumn(const TableSpec& table, size_t column);
  Choice Choose(const TableSpec& table, size_t column);
  bool TryDictionary(const ColumnView& column, size_t bits_to_beat);
  uint64_t FillColumn(const ColumnView& column, Encoding encoding);
  void AppendPlane(size_t plane);
  void Cut();
  const int64_t* InLaneOrder(const std::vector<int64_t>& column, std::vector<int64_t>& target) const;
  ColumnView View(size_t column, size_t reference = 0) const;
  absl::StatusOr<std::string> Finish(const Batch& batch, const BlockNotes& notes);
  absl::StatusOr<std::string_view> Compress(size_t body_bytes);

  LaneOrder order_;
  std::vector<uint8_t> lane_start_;
  std::vector<std::vector<int64_t>> ordered_;
  std::vector<const int64_t*> values_;  ///< per column, lane order
  size_t rows_ = 0;
  int64_t min_time_ = 0, max_time_ = 0;
  uint64_t columns_written_ = 0;
  std::string lanes_, columns_;
  std::vector<size_t> cuts_;  ///< where zstd blocks end, as offsets in columns_
  std::vector<uint64_t> residual_;
  DenseIndex dictionary_;
  Scratch plane_, compressed_;
  std::unique_ptr<ZSTD_CCtx, ZstdDeleter> zstd_;
};

void BlockEncoder::PrepareLanes(const Batch& batch, const BlockNotes& notes) {
  order_ = OrderByLane(batch);
  std::unordered_map<uint32_t, const LaneNote*> noted;
  for (const LaneNote& note : notes.lanes) noted.emplace(note.lane, &note);
  lane_start_.assign(rows_, 0);
  lanes_.clear();
  AppendVarint(lanes_, order_.lanes.size());
  uint32_t previous = 0;
  for (const LaneRange& lane : order_.lanes) {
    lane_start_[lane.first_row] = 1;
    const auto note = noted.find(lane.lane);
    AppendVarint(lanes_, lane.lane - previous);
    AppendVarint(lanes_, lane.rows);
    AppendVarint(lanes_, note == noted.end() ? 0 : note->second->clock_error_ns);
    AppendVarint(lanes_, note != noted.end() && note->second->lossy ? block_format::kLaneLossy : 0);
    previous = lane.lane;
  }
}

void BlockEncoder::FindTimes(const Batch& batch, const TableSpec& table) {
  const bool has_dur = table.columns.size() > 1 && table.columns[1].kind == ColumnKind::kDuration;
  int64_t min_time = std::numeric_limits<int64_t>::max(), max_time = std::numeric_limits<int64_t>::min();
  for (size_t i = 0; i < batch.rows(); ++i) {
    const int64_t start = batch.columns[0][i];
    int64_t end = start;
    if (has_dur && __builtin_add_overflow(start, std::max<int64_t>(batch.columns[1][i], 0), &end)) {
      end = std::numeric_limits<int64_t>::max();
    }
    min_time = std::min(min_time, start);
    max_time = std::max(max_time, end);
  }
  min_time_ = rows_ == 0 ? 0 : min_time;
  max_time_ = rows_ == 0 ? 0 : max_time;
}

const int64_t* BlockEncoder::InLaneOrder(const std::vector<int64_t>& column, std::vector<int64_t>& target) const {
  if (order_.position_of.empty() || IsConstant(column)) return column.data();
  target.resize(rows_);
  ScatterRows(column, order_.position_of.data(), target.data());
  return target.data();
}

ColumnView BlockEncoder::View(size_t column, size_t reference) const {
  return {values_[column], values_[reference], lane_start_.data(), column == 0 ? min_time_ : 0, rows_};
}

BlockEncoder::Choice BlockEncoder::Choose(const TableSpec& table, size_t column) {
  const ColumnView view = View(column);
  Choice best{Encoding::kUnsigned, SampleBits<Encoding::kUnsigned>(view)};
  const auto offer = [&](Encoding encoding, size_t bits, size_t reference = 0) {
    if (bits < best.bits) best = {encoding, bits, reference};
  };
  offer(Encoding::kSigned, SampleBits<Encoding::kSigned>(view));
  const ColumnKind kind = table.columns[column].kind;
  if (kind == ColumnKind::kReal) offer(Encoding::kXor, SampleBits<Encoding::kXor>(view));
  if (kind != ColumnKind::kDuration) offer(Encoding::kDelta, SampleBits<Encoding::kDelta>(view));
  for (size_t r = 1; r < table.columns.size() && kind == ColumnKind::kDuration && r < column; ++r) {
    if (table.columns[r].kind != ColumnKind::kDuration) continue;
    offer(Encoding::kOffset, SampleBits<Encoding::kOffset>(View(column, r)), r);
  }
  if (column == 0 && table.columns.size() > 1 && table.columns[1].kind == ColumnKind::kDuration) {
    offer(Encoding::kAfterEnd, SampleBits<Encoding::kAfterEnd>(View(0, 1)), 1);
  }
  const bool may_repeat = kind != ColumnKind::kDuration && column != 0;
  const size_t sampled = std::min<size_t>(rows_, 512);
  if (may_repeat && best.bits > 8 * sampled && TryDictionary(view, best.bits)) return {Encoding::kDictionary, 0};
  return best;
}

/// Leaves the dictionary of the whole column in dictionary_ and true if that is worth it by the sample.
bool BlockEncoder::TryDictionary(const ColumnView& column, size_t bits_to_beat) {
  size_t bits = 0;
  dictionary_.Clear();
  ForEachSampleStretch(column.rows, [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      const size_t known = dictionary_.keys().size();
      const uint32_t index = dictionary_.Of(static_cast<uint64_t>(column.value[i]));
      bits += static_cast<size_t>(std::bit_width(index));
      if (index == known) bits += 8 * VarintBytes(ZigZag(column.value[i]));
    }
  });
  if (bits * 5 > bits_to_beat * 4) return false;
  dictionary_.Clear();
  for (size_t i = 0; i < column.rows; ++i) {
    dictionary_.Of(static_cast<uint64_t>(column.value[i]));
    if (dictionary_.keys().size() > block_format::kMaxDictionary) return false;
  }
  return true;
}

/// Fills residual_ and returns the or of all of them.
uint64_t BlockEncoder::FillColumn(const ColumnView& column, Encoding encoding) {
  uint64_t* out = residual_.data();
  switch (encoding) {
    case Encoding::kConstant:
      return 0;
    case Encoding::kUnsigned:
      return FillResiduals<Encoding::kUnsigned>(column, out);
    case Encoding::kSigned:
      return FillResiduals<Encoding::kSigned>(column, out);
    case Encoding::kDelta:
      return FillResiduals<Encoding::kDelta>(column, out);
    case Encoding::kXor:
      return FillResiduals<Encoding::kXor>(column, out);
    case Encoding::kOffset:
      return FillResiduals<Encoding::kOffset>(column, out);
    case Encoding::kAfterEnd:
      return FillResiduals<Encoding::kAfterEnd>(column, out);
    case Encoding::kDictionary:
      break;
  }
  for (size_t i = 0; i < column.rows; ++i) out[i] = dictionary_.Of(static_cast<uint64_t>(column.value[i]));
  return dictionary_.keys().size() - 1;
}

void BlockEncoder::AppendColumn(const TableSpec& table, size_t column) {
  const int64_t* value = values_[column];
  const bool constant = IsConstant({value, rows_});
  if (constant && (rows_ == 0 || value[0] == 0)) return;
  Choice choice{Encoding::kConstant, 0};
  if (!constant) choice = Choose(table, column);
  const uint64_t used = FillColumn(View(column, choice.reference), choice.encoding);
  const size_t planes = constant ? 0 : static_cast<size_t>(std::bit_width(used) + 7) / 8;

  std::string head;
  if (choice.encoding == Encoding::kConstant) AppendVarint(head, ZigZag(value[0]));
  if (choice.reference != 0) AppendVarint(head, table.columns[choice.reference].id);
  if (choice.encoding == Encoding::kDictionary) {
    AppendVarint(head, dictionary_.keys().size());
    for (uint64_t key : dictionary_.keys()) AppendVarint(head, ZigZag(static_cast<int64_t>(key)));
  }
  AppendVarint(columns_, table.columns[column].id);
  AppendVarint(columns_, static_cast<uint64_t>(choice.encoding));
  AppendVarint(columns_, head.size() + planes * rows_);
  columns_ += head;
  for (size_t p = 0; p < planes; ++p) AppendPlane(p);
  ++columns_written_;
}

void BlockEncoder::AppendPlane(size_t plane) {
  char* out = plane_.Reserve(rows_);
  ExtractPlane(residual_, plane, reinterpret_cast<uint8_t*>(out));
  Cut();
  columns_.append(out, rows_);
  Cut();
}

/// Ends a zstd block here: planes have little in common, and a block has one Huffman table.
void BlockEncoder::Cut() {
  constexpr size_t kMinZstdBlockBytes = 4096;
  if (columns_.size() - (cuts_.empty() ? 0 : cuts_.back()) >= kMinZstdBlockBytes) cuts_.push_back(columns_.size());
}

absl::StatusOr<std::string> BlockEncoder::Finish(const Batch& batch, const BlockNotes& notes) {
  AppendVarint(lanes_, columns_written_);
  const size_t body_bytes = lanes_.size() + columns_.size();

  std::string fields;
  AppendVarint(fields, static_cast<uint64_t>(batch.table));
  AppendVarint(fields, batch.run.value);
  AppendVarint(fields, rows_);
  AppendVarint(fields, ZigZag(min_time_));
  AppendVarint(fields, static_cast<uint64_t>(max_time_) - static_cast<uint64_t>(min_time_));
  AppendVarint(fields, body_bytes);
  AppendVarint(fields, notes.clock_maps.size());
  for (uint32_t map : notes.clock_maps) AppendVarint(fields, map);

  std::string block(block_format::kMagic);
  block += static_cast<char>(kBlockMajorVersion);
  block += static_cast<char>(kBlockMinorVersion);
  block += static_cast<char>(fields.size() & 0xFF);
  block += static_cast<char>(fields.size() >> 8);
  block += fields;

  STEPSCOPE_ASSIGN_OR_RETURN(const std::string_view frame, Compress(body_bytes));
  return block.append(frame);
}

absl::StatusOr<std::string_view> BlockEncoder::Compress(size_t body_bytes) {
  if (!zstd_) {
    zstd_.reset(ZSTD_createCCtx());
    ZSTD_CCtx_setParameter(zstd_.get(), ZSTD_c_compressionLevel, 1);
    ZSTD_CCtx_setParameter(zstd_.get(), ZSTD_c_checksumFlag, 1);
  }
  ZSTD_CCtx_reset(zstd_.get(), ZSTD_reset_session_only);
  ZSTD_CCtx_setPledgedSrcSize(zstd_.get(), body_bytes);
  // Planes hardly repeat. In a small block the table of earlier strings costs more to clear and to miss than it finds.
  ZSTD_CCtx_setParameter(zstd_.get(), ZSTD_c_hashLog, body_bytes < kSmallBodyBytes ? kSmallHashLog : 0);
  const size_t bound = ZSTD_compressBound(body_bytes) + 16 * (cuts_.size() + 2);
  ZSTD_outBuffer out{compressed_.Reserve(bound), bound, 0};
  const auto feed = [&](std::string_view bytes, ZSTD_EndDirective directive) {
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    return ZSTD_compressStream2(zstd_.get(), &out, &in, directive);
  };
  size_t left = feed(lanes_, ZSTD_e_continue), at = 0;
  for (size_t cut : cuts_) {
    if (!ZSTD_isError(left)) left = feed(std::string_view(columns_).substr(at, cut - at), ZSTD_e_flush);
    at = cut;
  }
  if (!ZSTD_isError(left)) left = feed(std::string_view(columns_).substr(at), ZSTD_e_end);
  if (ZSTD_isError(left)) {
    return absl::InternalError(fmt::format("zstd could not compress a block of {} rows: {}", rows_, ZSTD_getErrorName(left)));
  }
  return std::string_view(static_cast<const char*>(out.dst), out.pos);
}

absl::StatusOr<std::string> BlockEncoder::Encode(const Batch& batch, const TableSpec& table, const BlockNotes& notes) {
  rows_ = batch.rows();
  columns_written_ = 0;
  columns_.clear();
  cuts_.clear();
  residual_.resize(rows_);
  PrepareLanes(batch, notes);
  FindTimes(batch, table);
  ordered_.resize(std::max(ordered_.size(), table.columns.size()));
  values_.resize(table.columns.size());
  for (size_t c = 0; c < table.columns.size(); ++c) values_[c] = InLaneOrder(batch.columns[c], ordered_[c]);
  // The start column goes last: it may refer to the duration, and a reference stands earlier in the block.
  for (size_t c = 1; c < table.columns.size(); ++c) AppendColumn(table, c);
  AppendColumn(table, 0);
  return Finish(batch, notes);
}

absl::Status CheckBatch(const Batch& batch, const TableSpec* table, const BlockNotes& notes) {
  if (table == nullptr) {
    return absl::InvalidArgumentError(fmt::format("table {} is not in the schema", static_cast<int>(batch.table)));
  }
  if (!batch.interned) {
    return absl::InvalidArgumentError(fmt::format("a batch of {} still has local names; intern it before encoding", table->name));
  }
  if (batch.rows() > kMaxBlockRows || notes.clock_maps.size() > block_format::kMaxClockMaps) {
    return absl::InvalidArgumentError(fmt::format("a block of {} with {} rows and {} clock maps is too big; limits are {} and {}",
                                                  table->name, batch.rows(), notes.clock_maps.size(), kMaxBlockRows,
                                                  block_format::kMaxClockMaps));
  }
  const bool even =
      std::all_of(batch.columns.begin(), batch.columns.end(), [&](const auto& c) { return c.size() == batch.rows(); });
  if (batch.columns.size() != table->columns.size() || !even) {
    return absl::InvalidArgumentError(
        fmt::format("a batch of {} does not have {} columns of {} rows each", table->name, table->columns.size(), batch.rows()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> EncodeBlock(const Batch& batch, const BlockNotes& notes) {
  const TableSpec* table = FindTable(batch.table);
  if (absl::Status checked = CheckBatch(batch, table, notes); !checked.ok()) return checked;
  // Its buffers and the zstd context cost more to make than a small block costs to encode.
  thread_local BlockEncoder encoder;
  return encoder.Encode(batch, *table, notes);
}

}  // namespace stepscope
