// SPDX-License-Identifier: Apache-2.0
#include "storage/parquet/parquet_file.h"

#include <arrow/array.h>
#include <arrow/array/array_dict.h>
#include <arrow/builder.h>
#include <arrow/io/interfaces.h>
#include <arrow/type.h>
#include <parquet/arrow/writer.h>
#include <parquet/properties.h>

#include <utility>

#include "storage/parquet/arrow_result.h"

namespace stepscope {
namespace {

constexpr int kZstdLevel = 3;

/// Writes to a FileTarget, shows every byte to the sink, and swallows what a library's destructor writes after an abort: an S3
/// stream that is destroyed without Close would otherwise publish half a file.
class TargetStream final : public arrow::io::OutputStream {
 public:
  static arrow::Result<std::shared_ptr<TargetStream>> Open(FileTarget target, DatasetSink sink, void* context) {
    std::shared_ptr<TargetStream> stream(new TargetStream(std::move(target), sink, context));
    const FileTarget& to = stream->target_;
    if (to.rename) {
      ARROW_RETURN_NOT_OK(to.file_system->CreateDir(to.path.substr(0, to.path.rfind('/')), /*recursive=*/true));
    }
    ARROW_ASSIGN_OR_RAISE(stream->out_, to.file_system->OpenOutputStream(stream->WritePath()));
    return stream;
  }
  ~TargetStream() override { static_cast<void>(Abort()); }

  arrow::Status Write(const void* data, int64_t bytes) override {
    if (closed_) return arrow::Status::OK();
    ARROW_RETURN_NOT_OK(out_->Write(data, bytes));
    if (sink_ != nullptr) sink_(context_, data, static_cast<size_t>(bytes));
    position_ += bytes;
    return arrow::Status::OK();
  }
  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Status Flush() override { return arrow::Status::OK(); }
  bool closed() const override { return closed_; }

  arrow::Status Close() override {
    if (closed_) return arrow::Status::OK();
    if (const arrow::Status status = out_->Close(); !status.ok()) {
      static_cast<void>(Abort());
      return status;
    }
    closed_ = true;
    return target_.rename ? target_.file_system->Move(WritePath(), target_.path) : arrow::Status::OK();
  }
  arrow::Status Abort() override {
    if (closed_) return arrow::Status::OK();
    closed_ = true;
    if (out_ == nullptr) return arrow::Status::OK();
    const arrow::Status status = out_->Abort();
    return target_.rename ? target_.file_system->DeleteFile(WritePath()) : status;
  }

 private:
  TargetStream(FileTarget target, DatasetSink sink, void* context) : target_(std::move(target)), sink_(sink), context_(context) {}
  std::string WritePath() const { return target_.rename ? target_.path + ".partial" : target_.path; }

  const FileTarget target_;
  const DatasetSink sink_;
  void* const context_;
  std::shared_ptr<arrow::io::OutputStream> out_;
  int64_t position_ = 0;
  bool closed_ = false;
};

std::shared_ptr<arrow::DataType> ArrowType(ParquetType type) {
  switch (type) {
    case ParquetType::kInt64:
      return arrow::int64();
    case ParquetType::kInt32:
      return arrow::int32();
    case ParquetType::kUint32:
      return arrow::uint32();
    case ParquetType::kReal:
      return arrow::float64();
    case ParquetType::kTimeMicros:
      return arrow::timestamp(arrow::TimeUnit::MICRO, "UTC");
    case ParquetType::kString:
      return arrow::dictionary(arrow::int32(), arrow::utf8());
  }
  return arrow::int64();
}

std::shared_ptr<parquet::WriterProperties> Properties(const std::vector<ParquetColumn>& columns) {
  parquet::WriterProperties::Builder builder;
  builder.version(parquet::ParquetVersion::PARQUET_2_6)->compression(parquet::Compression::ZSTD)->compression_level(kZstdLevel);
  builder.created_by("stepscope")->enable_write_page_index();
  for (const ParquetColumn& column : columns) {
    if (column.type == ParquetType::kString || column.type == ParquetType::kReal) continue;
    builder.disable_dictionary(column.name)->encoding(column.name, parquet::Encoding::DELTA_BINARY_PACKED);
  }
  return builder.build();
}

class ArrowParquetFile final : public DatasetFile {
 public:
  ArrowParquetFile(std::shared_ptr<TargetStream> stream, std::vector<ParquetType> types,
                   std::unique_ptr<parquet::arrow::FileWriter> writer)
      : stream_(std::move(stream)), types_(std::move(types)), writer_(std::move(writer)) {}

  DatasetResult BeginRowGroup() override {
    column_ = 0;
    return Guarded([&] { return writer_->NewRowGroup(); });
  }
  DatasetResult WriteInts(const int64_t* values, int64_t rows) override {
    return Guarded([&] { return writer_->WriteColumnChunk(*IntArray(NextType(), values, rows)); });
  }
  DatasetResult WriteStrings(const int32_t* indices, int64_t rows, const DatasetText* dictionary, int32_t entries) override {
    return Guarded([&]() -> arrow::Status {
      arrow::StringBuilder builder;
      for (int32_t i = 0; i < entries; ++i) {
        ARROW_RETURN_NOT_OK(builder.Append(dictionary[i].data, static_cast<int32_t>(dictionary[i].bytes)));
      }
      ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<arrow::Array> words, builder.Finish());
      const arrow::DictionaryArray array(ArrowType(NextType()),
                                         std::make_shared<arrow::Int32Array>(rows, arrow::Buffer::Wrap(indices, rows)), words);
      return writer_->WriteColumnChunk(array);
    });
  }
  DatasetResult Close() override {
    const DatasetResult result = Guarded([&]() -> arrow::Status {
      ARROW_RETURN_NOT_OK(writer_->Close());
      return stream_->Close();
    });
    if (!result.ok()) static_cast<void>(Abort());
    return result;
  }
  DatasetResult Abort() override {
    return Guarded([&] { return stream_->Abort(); });
  }
  void Release() override {
    static_cast<void>(Abort());
    static_cast<void>(Guarded([&] {
      writer_.reset();  // writes a footer into the stream, which is closed or aborted by now
      return arrow::Status::OK();
    }));
    delete this;
  }

 private:
  ParquetType NextType() { return types_.at(column_++); }

  static std::shared_ptr<arrow::Array> IntArray(ParquetType type, const int64_t* values, int64_t rows) {
    const std::shared_ptr<arrow::Buffer> wide = arrow::Buffer::Wrap(values, rows);
    switch (type) {
      case ParquetType::kReal:
        return std::make_shared<arrow::DoubleArray>(rows, wide);
      case ParquetType::kTimeMicros:
        return std::make_shared<arrow::TimestampArray>(ArrowType(type), rows, wide);
      case ParquetType::kInt32:
        return std::make_shared<arrow::Int32Array>(rows, Narrow<int32_t>(values, rows));
      case ParquetType::kUint32:
        return std::make_shared<arrow::UInt32Array>(rows, Narrow<uint32_t>(values, rows));
      default:
        return std::make_shared<arrow::Int64Array>(rows, wide);
    }
  }
  template <typename Int>
  static std::shared_ptr<arrow::Buffer> Narrow(const int64_t* values, int64_t rows) {
    return arrow::Buffer::FromVector(std::vector<Int>(values, values + rows));
  }

  const std::shared_ptr<TargetStream> stream_;
  const std::vector<ParquetType> types_;
  std::unique_ptr<parquet::arrow::FileWriter> writer_;
  size_t column_ = 0;
};

}  // namespace

arrow::Result<DatasetFile*> OpenParquetFile(FileTarget target, const std::vector<ParquetColumn>& columns, DatasetSink sink,
                                            void* context) {
  arrow::FieldVector fields;
  std::vector<ParquetType> types;
  for (const ParquetColumn& column : columns) {
    fields.push_back(arrow::field(column.name, ArrowType(column.type), /*nullable=*/false));
    types.push_back(column.type);
  }
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<TargetStream> stream, TargetStream::Open(std::move(target), sink, context));
  const auto arrow_properties = parquet::ArrowWriterProperties::Builder().store_schema()->build();
  auto writer = parquet::arrow::FileWriter::Open(arrow::Schema(fields), arrow::default_memory_pool(), stream, Properties(columns),
                                                 arrow_properties);
  if (!writer.ok()) {
    static_cast<void>(stream->Abort());
    return writer.status();
  }
  return new ArrowParquetFile(std::move(stream), std::move(types), *std::move(writer));
}

arrow::Status PutWholeFile(const FileTarget& target, const void* data, size_t bytes) {
  ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<TargetStream> stream, TargetStream::Open(target, nullptr, nullptr));
  if (const arrow::Status status = stream->Write(data, static_cast<int64_t>(bytes)); !status.ok()) {
    static_cast<void>(stream->Abort());
    return status;
  }
  return stream->Close();
}

}  // namespace stepscope
