// SPDX-License-Identifier: Apache-2.0
// Any bytes as what lies in the kernel's ring: rows are sound, whatever the order of records. Input: pieces, one record each.
#include <cstdint>
#include <cstring>

#include "daemon/collector/sched_collector.h"
#include "tests/fuzz/pieces.h"

namespace stepscope {

class SchedRecordFuzz : public DeliverySink {
 public:
  SchedRecordFuzz() : collector_(Options(), this, nullptr, &clock_) { collector_.runs_[2] = {RunId{7}, 1000, {}, {}, {}}; }
  void Take(std::string_view bytes) {
    alignas(8) std::byte record[sizeof(stepscope_wait)];
    const size_t size = std::min(bytes.size(), sizeof(record));
    std::memcpy(record, bytes.data(), size);
    collector_.Handle({record, size});
  }
  void Finish() { collector_.Deliver(); }

  bool Deliver(Delivery delivery) override {
    for (const Batch& batch : delivery.batches) {
      const auto columns = FindTable(batch.table)->columns;
      fuzz::Check(batch.columns.size() == columns.size());
      for (const uint32_t lane : batch.lane) fuzz::Check(lane < batch.entities.size());
      for (size_t c = 0; c < columns.size(); ++c) {
        fuzz::Check(batch.columns[c].size() == batch.rows());
        if (columns[c].kind != ColumnKind::kName) continue;
        for (const int64_t value : batch.columns[c]) fuzz::Check(value >= 0 && static_cast<size_t>(value) < batch.names.size());
      }
    }
    return true;
  }

 private:
  static SchedOptions Options() {
    SchedOptions options;
    options.proc_root = "/nonexistent";
    return options;
  }

  SystemClock clock_;
  SchedCollector collector_;
};

}  // namespace stepscope

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stepscope::SchedRecordFuzz fuzz;
  for (stepscope::fuzz::Pieces pieces(data, size); !pieces.empty();) fuzz.Take(pieces.Next());
  fuzz.Finish();
  return 0;
}
