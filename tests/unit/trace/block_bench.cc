// SPDX-License-Identifier: Apache-2.0
// Bytes and nanoseconds per row of the block codec on rows shaped like a training node's: scheduler turns of 200 threads, nested
// annotations of 8 ranks, kernels of 8 devices. Times carry 1 ns noise, which is what most of the bytes are.
// Budget: 5 bytes per scheduler turn, 4.6 per span or kernel, 100 ns to encode.
#include <benchmark/benchmark.h>

#include <array>
#include <cmath>
#include <random>

#include "trace/block.h"

namespace stepscope {
namespace {

class Rows {
 public:
  Batch SchedSlices(size_t rows) {
    Batch batch = Interned(TableId::kSchedSlice);
    struct Thread {
      int64_t off = 0, seq = 0, cpu = 0;
    };
    std::vector<Thread> threads(200);
    for (size_t t = 0; t < threads.size(); ++t)
      threads[t] = {Micros(3, 1), static_cast<int64_t>(Below(100'000)), static_cast<int64_t>(Below(32))};
    while (batch.rows() < rows) {
      const size_t t = Below(threads.size());
      Thread& thread = threads[t];
      const int64_t wait = Micros(1, 1), dur = Micros(3, 1.5);
      if (Below(10) == 0) thread.cpu = static_cast<int64_t>(Below(32));
      const int64_t on = thread.off + Micros(6, 1.5) + wait;
      const bool task_woke = Below(10) < 7;
      const int64_t waker = task_woke ? static_cast<int64_t>(40'000 + t + Below(4)) : 0;
      const int64_t syscall = std::array<int64_t, 4>{202, 202, 232, -1}[Below(4)];
      const int64_t arg0 = syscall == 202   ? static_cast<int64_t>(0x7F1200000000 + t * 4096 + Below(3) * 64)
                           : syscall == 232 ? 12
                                            : 0;
      const int64_t faults = Below(50) == 0 ? static_cast<int64_t>(Below(20)) : 0;
      batch.Append(static_cast<uint32_t>(t + 1),
                   {on, dur, wait, thread.cpu, waker, task_woke ? 1 : 2, syscall, arg0, syscall == -1 ? 3 : 0, ++thread.seq,
                    dur - static_cast<int64_t>(Below(200)), wait + static_cast<int64_t>(Below(100)), 0, faults, 0});
      thread.off = on + dur;
    }
    return batch;
  }

  Batch Spans(size_t rows) {
    Batch batch = Interned(TableId::kSpan);
    std::vector<int64_t> now(8, 1'000'000'000);
    for (int64_t step = 0; batch.rows() < rows; ++step) {
      for (uint32_t rank = 0; rank < 8; ++rank) {
        const int64_t begin = now[rank];
        for (int64_t part = 0; part < 4; ++part) {
          const int64_t part_begin = now[rank] += Micros(2, 0.5);
          for (int64_t layer = 0; layer < 12; ++layer) {
            now[rank] += Micros(1, 0.5);
            const int64_t dur = Micros(4, 0.3);
            batch.Append(rank + 1, {now[rank], dur, 20 + layer, 0, layer, 1, 2, 0, 0});
            now[rank] += dur;
          }
          batch.Append(rank + 1, {part_begin, now[rank] - part_begin, 10 + part, 0, 0, 0, 1, 0, 0});
        }
        batch.Append(rank + 1, {begin, now[rank] - begin, 3, 1, step, 1, 0, 0, 0});
      }
    }
    return Cut(std::move(batch), rows);
  }

  Batch Kernels(size_t rows) {
    Batch batch = Interned(TableId::kDeviceOp);
    std::vector<int64_t> now(8, 1'000'000'000), correlation(8, 1);
    while (batch.rows() < rows) {
      const auto device = static_cast<uint32_t>(Below(8));
      for (int64_t k = 0; k < 150; ++k) {
        const int64_t dur = 2'000 + k * 977 % 40'000 + static_cast<int64_t>(Below(600));
        now[device] += Below(5) == 0 ? Micros(2, 1) : 900 + static_cast<int64_t>(Below(256));
        batch.Append(device + 1,
                     {now[device], dur, 1, 0, 100 + k % 60, 200 + k, correlation[device] += 1 + k % 3, 0, 0, 0, 0, 0});
        now[device] += dur;
      }
    }
    return Cut(std::move(batch), rows);
  }

 private:
  static Batch Interned(TableId table) {
    Batch batch = Batch::For(table, {1});
    batch.interned = true;
    return batch;
  }
  static Batch Cut(Batch batch, size_t rows) {
    batch.lane.resize(rows);
    for (auto& column : batch.columns) column.resize(rows);
    return batch;
  }
  size_t Below(size_t limit) { return random_() % limit; }
  /// Log-normal, in ns: e^log_us microseconds.
  int64_t Micros(double log_us, double spread) {
    return static_cast<int64_t>(1000 * std::exp(std::normal_distribution<double>(log_us, spread)(random_)));
  }

  std::mt19937_64 random_{42};
};

Batch Make(int64_t shape, size_t rows) {
  return shape == 0 ? Rows().SchedSlices(rows) : shape == 1 ? Rows().Spans(rows) : Rows().Kernels(rows);
}
constexpr std::array<const char*, 3> kShapes = {"sched_slice", "span", "device_op"};

void Report(benchmark::State& state, size_t rows, size_t bytes) {
  state.SetLabel(kShapes[static_cast<size_t>(state.range(0))]);
  state.counters["bytes/row"] = static_cast<double>(bytes) / static_cast<double>(rows);
  state.counters["ns/row"] = benchmark::Counter(static_cast<double>(rows) * 1e-9,
                                                benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void Encode(benchmark::State& state) {
  const Batch batch = Make(state.range(0), static_cast<size_t>(state.range(1)));
  size_t bytes = 0;
  for (auto _ : state) bytes = EncodeBlock(batch)->size();
  Report(state, batch.rows(), bytes);
}

void Decode(benchmark::State& state) {
  const Batch batch = Make(state.range(0), static_cast<size_t>(state.range(1)));
  const std::string bytes = *EncodeBlock(batch);
  for (auto _ : state) benchmark::DoNotOptimize(DecodeBlock(bytes)->batch.lane.data());
  Report(state, batch.rows(), bytes.size());
}

BENCHMARK(Encode)->ArgsProduct({{0, 1, 2}, {2048, 16384, 65536}});
BENCHMARK(Decode)->ArgsProduct({{0, 1, 2}, {65536}});

}  // namespace
}  // namespace stepscope

BENCHMARK_MAIN();
