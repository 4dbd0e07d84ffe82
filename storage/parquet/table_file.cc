// SPDX-License-Identifier: Apache-2.0
#include "storage/parquet/table_file.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "base/valid_utf8.h"
#include "storage/parquet/row_order.h"

namespace stepscope {
namespace {

/// Values of a row group's string column: words in order of first use, one index per row.
class WordColumn {
 public:
  explicit WordColumn(size_t rows) { indices_.reserve(rows); }

  /// `make` is called once per distinct id.
  template <typename Make>
  void Append(int64_t id, Make make) {
    if (indices_.empty() || id != last_id_) {
      const auto [at, added] = index_of_id_.try_emplace(id, 0);
      if (added) at->second = IndexOfWord(ValidUtf8(make()));
      last_id_ = id;
      last_index_ = at->second;
    }
    indices_.push_back(last_index_);
  }
  const std::vector<int32_t>& indices() const { return indices_; }
  const std::vector<std::string>& words() const { return words_; }

 private:
  int32_t IndexOfWord(std::string word) {
    const auto [at, added] = index_of_word_.try_emplace(word, static_cast<int32_t>(words_.size()));
    if (added) words_.push_back(std::move(word));
    return at->second;
  }

  std::vector<int32_t> indices_;
  std::vector<std::string> words_;
  absl::flat_hash_map<int64_t, int32_t> index_of_id_;
  absl::flat_hash_map<std::string, int32_t> index_of_word_;
  int64_t last_id_ = 0;
  int32_t last_index_ = 0;
};

/// One row group about to be written: rows in lane order, columns made one at a time.
class RowGroup {
 public:
  RowGroup(std::span<const DecodedBlock> blocks, const TableFile::Context& context, const TableSpec& table)
      : blocks_(blocks), context_(context), table_(table), order_(LaneOrder(blocks)), values_(order_.size()) {
    for (const RowRef at : order_) {
      const uint32_t lane = LaneOf(at);
      if (!lanes_.contains(lane)) lanes_.emplace(lane, context_.texts->Lane({lane}));
    }
  }

  absl::Status Write(const LayoutColumn& column, Dataset::File& file) {
    if (column.type == ParquetType::kString) return WriteWords(column, file);
    FillInts(column);
    return file.WriteInts(values_);
  }

 private:
  uint32_t LaneOf(RowRef at) const { return blocks_[at.block].batch.lane[at.row]; }
  int64_t Value(RowRef at, size_t c) const { return blocks_[at.block].batch.columns[c][at.row]; }
  int64_t WallNs(RowRef at) const { return context_.wall->At({Value(at, 0)}).ns; }

  template <typename Get>
  void Fill(Get get) {
    for (size_t i = 0; i < order_.size(); ++i) values_[i] = get(order_[i]);
  }
  /// Rows are in lane order, so the lane is looked up once per run of rows.
  template <typename Get>
  void FillByLane(Get get) {
    uint32_t lane = 0;
    int64_t value = 0;
    for (size_t i = 0; i < order_.size(); ++i) {
      if (i == 0 || LaneOf(order_[i]) != lane) {
        lane = LaneOf(order_[i]);
        value = get(lanes_.at(lane));
      }
      values_[i] = value;
    }
  }

  void FillInts(const LayoutColumn& column) {
    switch (column.source) {
      case ColumnSource::kTime:
        return Fill([&](RowRef at) { return FloorToMicros(WallNs(at)); });
      case ColumnSource::kWallTime:
        return Fill([&](RowRef at) { return WallNs(at); });
      case ColumnSource::kRun:
        return Fill([&](RowRef) { return int64_t{context_.run.value}; });
      case ColumnSource::kLane:
        return Fill([&](RowRef at) { return int64_t{LaneOf(at)}; });
      case ColumnSource::kRank:
        return FillByLane([](const LaneIdentity& lane) { return int64_t{lane.rank}; });
      case ColumnSource::kPid:
        return FillByLane([](const LaneIdentity& lane) { return int64_t{lane.pid}; });
      case ColumnSource::kTid:
        return FillByLane([](const LaneIdentity& lane) { return int64_t{lane.tid}; });
      default:
        return FillOwn(column.own);
    }
  }
  void FillOwn(size_t c) {
    std::vector<const int64_t*> data;
    for (const DecodedBlock& block : blocks_) data.push_back(block.batch.columns[c].data());
    Fill([&](RowRef at) { return data[at.block][at.row]; });
  }
  static int64_t FloorToMicros(int64_t ns) { return ns >= 0 ? ns / 1000 : -((999 - ns) / 1000); }

  absl::Status WriteWords(const LayoutColumn& column, Dataset::File& file) {
    WordColumn words(order_.size());
    for (const RowRef at : order_) AppendWord(column, at, words);
    return file.WriteStrings(words.indices(), words.words());
  }
  void AppendWord(const LayoutColumn& column, RowRef at, WordColumn& words) {
    const uint32_t lane = LaneOf(at);
    switch (column.source) {
      case ColumnSource::kNode:
        return words.Append(0, [&] { return context_.node; });
      case ColumnSource::kProcess:
        return words.Append(lane, [&] { return lanes_.at(lane).process; });
      case ColumnSource::kThread:
        return words.Append(lane, [&] { return lanes_.at(lane).thread; });
      case ColumnSource::kLaneName:
        return words.Append(lane, [&] { return lanes_.at(lane).name; });
      default:
        break;
    }
    const int64_t id = Value(at, column.own);
    words.Append(id, [&] {
      if (table_.columns[column.own].kind == ColumnKind::kName) return context_.texts->Name({static_cast<uint32_t>(id)});
      return id <= 0 ? std::string() : context_.texts->Lane({static_cast<uint32_t>(id)}).name;
    });
  }

  const std::span<const DecodedBlock> blocks_;
  const TableFile::Context& context_;
  const TableSpec& table_;
  const std::vector<RowRef> order_;
  absl::flat_hash_map<uint32_t, LaneIdentity> lanes_;
  std::vector<int64_t> values_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TableFile>> TableFile::Create(Dataset& dataset, const std::string& path, const TableSpec& table,
                                                             const Context& context) {
  std::unique_ptr<TableFile> made(new TableFile(table, context));
  std::vector<ParquetColumn> columns;
  for (const LayoutColumn& column : made->layout_) columns.push_back({column.name.c_str(), column.type});
  STEPSCOPE_ASSIGN_OR_RETURN(made->file_, dataset.CreateParquet(path, columns));
  return made;
}

absl::Status TableFile::Add(DecodedBlock block) {
  const size_t rows = block.batch.rows();
  if (pending_rows_ > 0 && pending_rows_ + rows > context_.row_group_rows) STEPSCOPE_RETURN_IF_ERROR(FlushRowGroup());
  pending_rows_ += rows;
  pending_.push_back(std::move(block));
  return absl::OkStatus();
}

absl::Status TableFile::FlushRowGroup() {
  if (pending_rows_ == 0) return absl::OkStatus();
  STEPSCOPE_RETURN_IF_ERROR(file_->BeginRowGroup());
  {
    RowGroup group(pending_, context_, table_);
    for (const LayoutColumn& column : layout_) STEPSCOPE_RETURN_IF_ERROR(group.Write(column, *file_));
  }
  rows_ += pending_rows_;
  pending_rows_ = 0;
  pending_.clear();
  return absl::OkStatus();
}

absl::StatusOr<FileTotals> TableFile::Close() {
  STEPSCOPE_RETURN_IF_ERROR(FlushRowGroup());
  return file_->Close();
}

}  // namespace stepscope
