// SPDX-License-Identifier: Apache-2.0
// A DeliverySink that keeps counter and loss rows as a reader would see them, and can be waited on.
#pragma once

#include <bit>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/pipeline/delivery.h"

namespace stepscope {

struct CounterRow {
  RunId run;
  EntityKey lane;
  std::string name;
  int64_t time_ns = 0;
  double value = 0;
  bool scaled = false;
};

struct LossRow {
  RunId run;
  EntityKey lane;
  std::vector<int64_t> columns;
};

class KeptCounters final : public DeliverySink {
 public:
  bool Deliver(Delivery delivery) override {
    const std::lock_guard lock(mutex_);
    for (const Batch& batch : delivery.batches) {
      for (size_t row = 0; row < batch.rows(); ++row) Keep(batch, row);
    }
    changed_.notify_all();
    return true;
  }

  std::vector<CounterRow> Rows() const {
    const std::lock_guard lock(mutex_);
    return rows_;
  }
  std::vector<LossRow> Losses() const {
    const std::lock_guard lock(mutex_);
    return losses_;
  }
  std::vector<CounterRow> RowsOf(RunId run, const std::string& lane_text) const {
    std::vector<CounterRow> found;
    for (const CounterRow& row : Rows()) {
      if (row.run == run && row.lane.text == lane_text) found.push_back(row);
    }
    return found;
  }
  /// Waits until `count` rows have come; false when they do not within half a minute.
  bool Await(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return rows_.size() >= count; });
  }

 private:
  void Keep(const Batch& batch, size_t row) {
    const EntityKey& lane = batch.entities[batch.lane[row]];
    if (batch.table == TableId::kCounter) {
      const auto& c = batch.columns;
      rows_.push_back({batch.run, lane, batch.names[static_cast<size_t>(c[counter_column::kName][row])],
                       c[counter_column::kTime][row], std::bit_cast<double>(c[counter_column::kValue][row]),
                       c[counter_column::kScaled][row] != 0});
      return;
    }
    LossRow loss{batch.run, lane, {}};
    for (const auto& column : batch.columns) loss.columns.push_back(column[row]);
    losses_.push_back(std::move(loss));
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<CounterRow> rows_;
  std::vector<LossRow> losses_;
};

}  // namespace stepscope
