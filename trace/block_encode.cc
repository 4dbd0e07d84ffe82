// SPDX-License-Identifier: Apache-2.0
// Encoder of the block format. Each column picks, on a sample of its rows, the encoding with the fewest bytes; a column that is
// 0 everywhere is not written at all. Hot path: tests/bench/block_bench.cc prints its cost per row.
#include <zstd.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>

#include "trace/block.h"
#include "trace/block_format.h"
#include "trace/dense_index.h"
#include "trace/lane_order.h"
#include "trace/varint.h"

namespace stepscope {
namespace {

using block_format::Encoding;

/// One column in lane order, with what its encodings may refer to.
struct ColumnView {
  const int64_t* value = nullptr;
  const int64_t* reference = nullptr;  ///< kOffset, kAfterEnd
  const uint8_t* lane_start = nullptr;  ///< 1 on the first row of each lane
  int64_t base = 0;                    ///< previous value of a lane's first row
  size_t rows = 0;
};

uint64_t Difference(int64_t a, int64_t b) {
  return ZigZag(static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b)));
}

template <Encoding encoding>
uint64_t Residual(const ColumnView& c, size_t i) {
  const int64_t v = c.value[i];
  if constexpr (encoding == Encoding::kUnsigned) return static_cast<uint64_t>(v);
  if constexpr (encoding == Encoding::kSigned) return ZigZag(v);
  if constexpr (encoding == Encoding::kDelta) return Difference(v, c.lane_start[i] ? c.base : c.value[i - 1]);
  if constexpr (encoding == Encoding::kXor) return __builtin_bswap64(static_cast<uint64_t>(v ^ (c.lane_start[i] ? c.base : c.value[i - 1])));
  if constexpr (encoding == Encoding::kOffset) return Difference(v, c.reference[i]);
  if constexpr (encoding == Encoding::kAfterEnd) {
    if (c.lane_start[i]) return Difference(v, c.base);
    const uint64_t end = static_cast<uint64_t>(c.value[i - 1]) + static_cast<uint64_t>(c.reference[i - 1]);
    return Difference(v, static_cast<int64_t>(end));
  }
}

/// Calls `visit(first, last)` for up to 16 stretches of 128 rows spread over the column: enough to choose by.
template <typename Visit>
void ForEachSampleStretch(size_t rows, Visit visit) {
  constexpr size_t kStretches = 16, kLength = 128;
  if (rows <= kStretches * kLength) return visit(size_t{0}, rows);
  for (size_t s = 0; s < kStretches; ++s) {
    const size_t first = s * (rows - kLength) / (kStretches - 1);
    visit(first, first + kLength);
  }
}

template <Encoding encoding>
size_t SampleBytes(const ColumnView& column) {
  size_t bytes = 0;
  ForEachSampleStretch(column.rows, [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) bytes += VarintBytes(Residual<encoding>(column, i));
  });
  return bytes;
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

class BlockEncoder {
 public:
  absl::StatusOr<std::string> Encode(const Batch& batch, const TableSpec& table, const BlockNotes& notes);

 private:
  struct Choice {
    Encoding encoding;
    size_t bytes;             ///< of the sample
    size_t reference = 0;     ///< column position, for kOffset and kAfterEnd
  };

  void PrepareLanes(const Batch& batch, const BlockNotes& notes);
  void FindTimes(const Batch& batch, const TableSpec& table);
  void AppendColumn(const TableSpec& table, size_t column);
  Choice Choose(const TableSpec& table, size_t column);
  bool TryDictionary(const ColumnView& column, size_t bytes_to_beat);
  size_t WriteValues(ColumnView column, const TableSpec& table, const Choice& choice);
  void AppendPayload(const TableSpec& table, size_t column, Encoding encoding, size_t bytes);
  const int64_t* Gather(const Batch& batch, size_t column);
  ColumnView View(size_t column, size_t reference = 0) const;
  absl::StatusOr<std::string> Finish(const Batch& batch, const BlockNotes& notes);

  LaneOrder order_;
  std::vector<uint8_t> lane_start_;
  std::vector<std::vector<int64_t>> gathered_;
  std::vector<const int64_t*> values_;  ///< per column, lane order
  size_t rows_ = 0;
  int64_t min_time_ = 0, max_time_ = 0;
  uint64_t columns_written_ = 0;
  std::string lanes_, columns_;
  DenseIndex dictionary_;
  Scratch payload_, compressed_;
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
  min_time_ = rows_ == 0 ? 0 : std::numeric_limits<int64_t>::max();
  max_time_ = rows_ == 0 ? 0 : std::numeric_limits<int64_t>::min();
  for (size_t i = 0; i < rows_; ++i) {
    const int64_t start = batch.columns[0][i];
    int64_t end = start;
    if (has_dur && __builtin_add_overflow(start, std::max<int64_t>(batch.columns[1][i], 0), &end)) {
      end = std::numeric_limits<int64_t>::max();
    }
    min_time_ = std::min(min_time_, start);
    max_time_ = std::max(max_time_, end);
  }
}

const int64_t* BlockEncoder::Gather(const Batch& batch, size_t column) {
  const std::vector<int64_t>& source = batch.columns[column];
  if (order_.row_at.empty()) return source.data();
  std::vector<int64_t>& target = gathered_[column];
  target.resize(rows_);
  for (size_t i = 0; i < rows_; ++i) target[i] = source[order_.row_at[i]];
  return target.data();
}

ColumnView BlockEncoder::View(size_t column, size_t reference) const {
  return {values_[column], values_[reference], lane_start_.data(), column == 0 ? min_time_ : 0, rows_};
}

BlockEncoder::Choice BlockEncoder::Choose(const TableSpec& table, size_t column) {
  const ColumnView view = View(column);
  Choice best{Encoding::kUnsigned, SampleBytes<Encoding::kUnsigned>(view)};
  const auto offer = [&](Encoding encoding, size_t bytes, size_t reference = 0) {
    if (bytes < best.bytes) best = {encoding, bytes, reference};
  };
  offer(Encoding::kSigned, SampleBytes<Encoding::kSigned>(view));
  const ColumnKind kind = table.columns[column].kind;
  if (kind == ColumnKind::kReal) offer(Encoding::kXor, SampleBytes<Encoding::kXor>(view));
  if (kind != ColumnKind::kDuration) offer(Encoding::kDelta, SampleBytes<Encoding::kDelta>(view));
  for (size_t r = 1; r < table.columns.size() && kind == ColumnKind::kDuration && r < column; ++r) {
    if (table.columns[r].kind != ColumnKind::kDuration) continue;
    offer(Encoding::kOffset, SampleBytes<Encoding::kOffset>(View(column, r)), r);
  }
  if (column == 0 && table.columns.size() > 1 && table.columns[1].kind == ColumnKind::kDuration) {
    offer(Encoding::kAfterEnd, SampleBytes<Encoding::kAfterEnd>(View(0, 1)), 1);
  }
  return best;
}

/// Leaves the dictionary of the whole column in dictionary_ and true if that is worth it by the sample.
bool BlockEncoder::TryDictionary(const ColumnView& column, size_t bytes_to_beat) {
  size_t bytes = 0;
  dictionary_.Clear();
  ForEachSampleStretch(column.rows, [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      const size_t known = dictionary_.keys().size();
      const uint32_t index = dictionary_.Of(static_cast<uint64_t>(column.value[i]));
      bytes += VarintBytes(index);
      if (index == known) bytes += VarintBytes(ZigZag(column.value[i]));
    }
  });
  if (bytes * 5 > bytes_to_beat * 4) return false;
  dictionary_.Clear();
  for (size_t i = 0; i < column.rows; ++i) {
    dictionary_.Of(static_cast<uint64_t>(column.value[i]));
    if (dictionary_.keys().size() > block_format::kMaxDictionary) return false;
  }
  return true;
}

template <Encoding encoding>
char* WriteResiduals(char* out, const ColumnView& column) {
  for (size_t i = 0; i < column.rows; ++i) out = PutVarint(out, Residual<encoding>(column, i));
  return out;
}

size_t BlockEncoder::WriteValues(ColumnView column, const TableSpec& table, const Choice& choice) {
  char* const begin = payload_.Reserve((rows_ + block_format::kMaxDictionary + 2) * kMaxVarintBytes);
  char* out = begin;
  switch (choice.encoding) {
    case Encoding::kConstant: out = PutVarint(out, ZigZag(column.value[0])); break;
    case Encoding::kUnsigned: out = WriteResiduals<Encoding::kUnsigned>(out, column); break;
    case Encoding::kSigned: out = WriteResiduals<Encoding::kSigned>(out, column); break;
    case Encoding::kDelta: out = WriteResiduals<Encoding::kDelta>(out, column); break;
    case Encoding::kXor: out = WriteResiduals<Encoding::kXor>(out, column); break;
    case Encoding::kOffset:
      out = PutVarint(out, table.columns[choice.reference].id);
      out = WriteResiduals<Encoding::kOffset>(out, column);
      break;
    case Encoding::kAfterEnd:
      out = PutVarint(out, table.columns[choice.reference].id);
      out = WriteResiduals<Encoding::kAfterEnd>(out, column);
      break;
    case Encoding::kDictionary:
      out = PutVarint(out, dictionary_.keys().size());
      for (uint64_t key : dictionary_.keys()) out = PutVarint(out, ZigZag(static_cast<int64_t>(key)));
      for (size_t i = 0; i < rows_; ++i) out = PutVarint(out, dictionary_.Of(static_cast<uint64_t>(column.value[i])));
      break;
  }
  return static_cast<size_t>(out - begin);
}

void BlockEncoder::AppendColumn(const TableSpec& table, size_t column) {
  const int64_t* value = values_[column];
  const bool constant = std::all_of(value, value + rows_, [first = rows_ > 0 ? value[0] : 0](int64_t v) { return v == first; });
  Choice choice{Encoding::kConstant, 0};
  if (constant && (rows_ == 0 || value[0] == 0)) return;
  if (!constant) {
    choice = Choose(table, column);
    const bool names = table.columns[column].kind != ColumnKind::kDuration && column != 0;
    const size_t sampled = std::min<size_t>(rows_, 2048);
    if (names && choice.bytes > sampled + sampled / 16 && TryDictionary(View(column), choice.bytes)) {
      choice = {Encoding::kDictionary, 0};
    }
  }
  const size_t bytes = WriteValues(View(column, choice.reference), table, choice);
  AppendVarint(columns_, table.columns[column].id);
  AppendVarint(columns_, static_cast<uint64_t>(choice.encoding));
  AppendVarint(columns_, bytes);
  columns_.append(payload_.Reserve(0), bytes);
  ++columns_written_;
}

absl::StatusOr<std::string> BlockEncoder::Finish(const Batch& batch, const BlockNotes& notes) {
  std::string body = std::move(lanes_);
  AppendVarint(body, columns_written_);
  body += columns_;

  std::string fields;
  AppendVarint(fields, static_cast<uint64_t>(batch.table));
  AppendVarint(fields, batch.run.value);
  AppendVarint(fields, rows_);
  AppendVarint(fields, ZigZag(min_time_));
  AppendVarint(fields, static_cast<uint64_t>(max_time_) - static_cast<uint64_t>(min_time_));
  AppendVarint(fields, body.size());
  AppendVarint(fields, notes.clock_maps.size());
  for (uint32_t map : notes.clock_maps) AppendVarint(fields, map);

  std::string block(block_format::kMagic);
  block += static_cast<char>(kBlockMajorVersion);
  block += static_cast<char>(kBlockMinorVersion);
  block += static_cast<char>(fields.size() & 0xFF);
  block += static_cast<char>(fields.size() >> 8);
  block += fields;

  if (!zstd_) {
    zstd_.reset(ZSTD_createCCtx());
    ZSTD_CCtx_setParameter(zstd_.get(), ZSTD_c_compressionLevel, 1);
    ZSTD_CCtx_setParameter(zstd_.get(), ZSTD_c_checksumFlag, 1);
  }
  const size_t bound = ZSTD_compressBound(body.size());
  char* target = compressed_.Reserve(bound);
  const size_t size = ZSTD_compress2(zstd_.get(), target, bound, body.data(), body.size());
  if (ZSTD_isError(size)) {
    return absl::InternalError(fmt::format("zstd could not compress a block of {} rows: {}", rows_, ZSTD_getErrorName(size)));
  }
  lanes_ = std::move(body);  // keeps its capacity for the next block
  return block.append(target, size);
}

absl::StatusOr<std::string> BlockEncoder::Encode(const Batch& batch, const TableSpec& table, const BlockNotes& notes) {
  rows_ = batch.rows();
  columns_written_ = 0;
  columns_.clear();
  PrepareLanes(batch, notes);
  FindTimes(batch, table);
  gathered_.resize(std::max(gathered_.size(), table.columns.size()));
  values_.resize(table.columns.size());
  for (size_t c = 0; c < table.columns.size(); ++c) values_[c] = Gather(batch, c);
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
  const bool even = std::all_of(batch.columns.begin(), batch.columns.end(), [&](const auto& c) { return c.size() == batch.rows(); });
  if (batch.columns.size() != table->columns.size() || !even) {
    return absl::InvalidArgumentError(fmt::format("a batch of {} does not have {} columns of {} rows each", table->name,
                                                  table->columns.size(), batch.rows()));
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
