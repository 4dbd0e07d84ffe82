// SPDX-License-Identifier: Apache-2.0
// The way of an annotation after the call: records in a ring, rows decoded from them, and the pipeline that seals those into a
// store. Everything in one process, without sockets.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/pipeline/pipeline.h"
#include "storage/store.h"

namespace stepscope::bench {

/// Ring bytes of nested spans of one thread, three numbered ones inside one of a layer, written by the agent's own writer.
std::string WriteRing(uint64_t spans);

/// What ingest makes of ring bytes that come in pushes of 64 KiB.
std::vector<Delivery> DecodeRing(const std::string& ring);

/// A pipeline on a RocksDB store in a fresh folder under TMPDIR.
class RingStore {
 public:
  RingStore();
  ~RingStore();
  /// Rows of `deliveries` are committed when it returns.
  void Add(std::vector<Delivery> deliveries);
  /// Of the table span, rows counted by reading them back.
  TableTotal Totals() const;

 private:
  std::string path_;
  std::unique_ptr<Store> store_;
  SystemClock clock_;
  ClockRegistry clocks_;
  std::unique_ptr<Pipeline> pipeline_;
};

}  // namespace stepscope::bench
