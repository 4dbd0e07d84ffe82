// SPDX-License-Identifier: Apache-2.0
// Paths of objects below the upload prefix (docs/formats/parquet.md).
//
//   v1/<table>/job=<uid>.<kind>.<id>/attempt=<n>/<node>-<run>-<part>.parquet
//   v1/_jobs/job=<uid>.<kind>.<id>/attempt=<n>/parts/<node>-<run>-<part>.json      manifest of a part
//   v1/_jobs/job=<uid>.<kind>.<id>/attempt=<n>/<node>-<run>.json                   closing manifest, written last
//
// <run> is the store's run number and a tag of the store's boot and start, "3.9f2c01aa": a node whose store was wiped numbers its
// runs from 1 again and must not overwrite what it uploaded before.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/upload/run_directory.h"

namespace stepscope {

/// Everything but letters, digits, '_', '.' and '-' as %XX of its bytes; "." and ".." are encoded too. Reversible.
std::string PercentEncode(std::string_view text);

class ObjectPaths {
 public:
  explicit ObjectPaths(const UploadRun& run);
  std::string Table(std::string_view table, uint32_t part) const;
  std::string PartManifest(uint32_t part) const;
  std::string ClosingManifest() const;

 private:
  std::string job_;   ///< "job=…/attempt=…"
  std::string stem_;  ///< "<node>-<run>"
};

}  // namespace stepscope
