// SPDX-License-Identifier: Apache-2.0
// A folder or an S3 bucket through Arrow's file systems. Inside the module only.
#pragma once

#include "storage/parquet/dataset_module.h"

namespace stepscope {

DatasetResult OpenArrowStore(const DatasetConfig* config, DatasetStore** store);

}  // namespace stepscope
