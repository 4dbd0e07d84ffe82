// SPDX-License-Identifier: Apache-2.0
// One Parquet file on an Arrow output stream: dictionary strings, DELTA_BINARY_PACKED integers, zstd, column by column.
// Inside the module only.
#pragma once

#include <arrow/filesystem/filesystem.h>

#include <memory>
#include <string>
#include <vector>

#include "storage/parquet/dataset_module.h"

namespace stepscope {

/// Where a file is written and what makes it appear. A folder gets "<path>.partial" first; an S3 object is invisible anyway
/// until its multipart upload is completed.
struct FileTarget {
  std::shared_ptr<arrow::fs::FileSystem> file_system;
  std::string path;
  bool rename = false;
};

arrow::Result<DatasetFile*> OpenParquetFile(FileTarget target, const std::vector<ParquetColumn>& columns, DatasetSink sink,
                                            void* context);
arrow::Status PutWholeFile(const FileTarget& target, const void* data, size_t bytes);

}  // namespace stepscope
