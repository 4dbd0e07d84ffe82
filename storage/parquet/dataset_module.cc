// SPDX-License-Identifier: Apache-2.0
// The one exported symbol of lib/stepscope_dataset.so.
#include "storage/parquet/dataset_module.h"

#include "storage/parquet/arrow_store.h"

extern "C" __attribute__((visibility("default"))) const stepscope::DatasetModule* stepscope_dataset_v1() {
  static const stepscope::DatasetModule module{stepscope::kDatasetAbi, &stepscope::OpenArrowStore};
  return &module;
}
