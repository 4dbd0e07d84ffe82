// SPDX-License-Identifier: Apache-2.0
// fill_store DATA_DIR MEGABYTES [FORMAT]: makes a store with two ended jobs of this user, "big" and "small", whose blocks lie
// mixed, one of small between each five of big; FORMAT is written as the version of its format. For tests/e2e.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <random>

#include "daemon/jobs/job_table.h"
#include "daemon/pipeline/pipeline.h"
#include "storage/store.h"

namespace stepscope {
namespace {

constexpr int kRowsAtOnce = 14'000;  ///< about 170 KB: API calls whose correlation does not compress

class Filler {
 public:
  explicit Filler(Store* store)
      : store_(store), jobs_(store, &clock_, "boot", "node", {}), pipeline_(store, &clocks_, &clock_, {}) {
    pipeline_.Start();
  }

  absl::Status Fill(uint64_t bytes) {
    const auto big = Start("big"), small = Start("small");
    if (!big.ok() || !small.ok()) return big.ok() ? small.status() : big.status();
    for (int n = 0; *store_->DiskBytes() < bytes; ++n) {
      pipeline_.Deliver(Calls(n % 6 == 5 ? *small : *big));
      if (const absl::Status drained = pipeline_.Drain(); !drained.ok()) return drained;
      if (n % 50 == 49) (void)store_->Reclaim({});  // blobs instead of log
    }
    pipeline_.Stop();
    for (const RunId run : {*big, *small}) {
      if (const auto ended = jobs_.EndJob(run, ""); !ended.ok()) return ended.status();
    }
    return store_->Reclaim({});
  }

 private:
  absl::StatusOr<RunId> Start(const std::string& name) {
    StartJobSpec spec;
    spec.name = spec.id = name;
    spec.uid = geteuid();
    const auto job = jobs_.StartJob(spec);
    return job.ok() ? absl::StatusOr<RunId>(job->run) : job.status();
  }
  Delivery Calls(RunId run) {
    Delivery delivery;
    Batch calls = Batch::For(TableId::kApiCall, run);
    const uint32_t lane = calls.LocalEntity({EntityKind::kThread, 1, 1, 1, ""});
    const int64_t name = calls.LocalName("call"), now = clock_.Node().ns;
    for (int i = 0; i < kRowsAtOnce; ++i) calls.Append(lane, {now + i, 1, name, static_cast<int64_t>(random_()), 0});
    delivery.batches.push_back(std::move(calls));
    return delivery;
  }

  Store* const store_;
  SystemClock clock_;
  ClockRegistry clocks_;
  JobTable jobs_;
  Pipeline pipeline_;
  std::mt19937_64 random_{29};
};

int Main(const std::string& data_dir, uint64_t megabytes, const std::string& format) {
  auto store = Store::Open({.path = data_dir + "/store"});
  absl::Status filled = store.ok() ? Filler(store->get()).Fill(megabytes * 1'000'000) : store.status();
  Seal seal;
  seal.meta.push_back({"setting", "store_format", format});
  if (filled.ok() && !format.empty()) filled = (*store)->Commit(seal);
  if (filled.ok()) return 0;
  fmt::print(stderr, "fill_store: {}\n", filled.ToString());
  return 1;
}

}  // namespace
}  // namespace stepscope

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  return stepscope::Main(argv[1], strtoull(argv[2], nullptr, 10), argc > 3 ? argv[3] : "");
}
