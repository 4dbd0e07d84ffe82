// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/encoding/rows.h"

#include <array>
#include <bit>
#include <cmath>
#include <random>

namespace stepscope::bench {
namespace {

class Chance {
 public:
  int64_t Below(int64_t limit) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(limit)); }
  /// Log-normal with this median, in ns.
  int64_t Ns(double median_ns, double spread) {
    return static_cast<int64_t>(median_ns * std::exp(spread * std::normal_distribution<double>()(random_)));
  }
  double Normal() { return std::normal_distribution<double>()(random_); }

 private:
  std::mt19937_64 random_{42};
};

Batch Interned(TableId table, size_t rows) {
  Batch batch = Batch::For(table, {1});
  batch.interned = true;
  batch.lane.reserve(rows);
  for (auto& column : batch.columns) column.reserve(rows);
  return batch;
}

Batch Cut(Batch batch, size_t rows) {
  batch.lane.resize(rows);
  for (auto& column : batch.columns) column.resize(rows);
  return batch;
}

/// One kernel with the launch that asked for it.
struct Launch {
  int64_t call_start, call_dur, start, dur, shape, correlation;
};

/// Launches of one device in order: a host thread calls, the kernel begins when it has arrived and the queue is free.
class Device {
 public:
  explicit Device(int64_t device) : shape_(device * 7) {}
  Launch Next(Chance& chance) {
    shape_ = (shape_ + 1) % kShapesUsed;
    Launch launch;
    launch.call_start = host_ += chance.Ns(9'000, 1.6);
    launch.call_dur = chance.Ns(5'500, 0.35);
    host_ += launch.call_dur;
    launch.dur = chance.Ns(kTypicalNs[static_cast<size_t>(shape_) % kTypicalNs.size()], 0.25);
    launch.start = std::max(free_ + 900 + chance.Below(400), host_ + chance.Ns(4'000, 1.2));
    free_ = launch.start + launch.dur;
    launch.shape = shape_;
    launch.correlation = correlation_ += 1 + shape_ % 3;
    return launch;
  }

 private:
  static constexpr int64_t kShapesUsed = 200;
  static constexpr std::array<double, 10> kTypicalNs = {2'100, 3'400, 5'200, 8'000, 12'500, 2'600, 22'000, 47'000, 95'000, 4'100};
  int64_t shape_, host_ = 1'000'000'000, free_ = 0, correlation_ = 1;
};

template <typename Add>
void ForEachLaunch(Batch& batch, size_t rows, Add add) {
  Chance chance;
  std::vector<Device> devices;
  for (int64_t d = 0; d < 8; ++d) devices.emplace_back(d);
  while (batch.rows() < rows) {
    const auto device = static_cast<size_t>(chance.Below(8));
    for (int burst = 0; burst < 150; ++burst) add(static_cast<uint32_t>(device), devices[device].Next(chance));
  }
}

}  // namespace

Batch SchedSlices(size_t rows) {
  Chance chance;
  Batch batch = Interned(TableId::kSchedSlice, rows);
  struct Thread {
    int64_t off = 0, seq = 0, cpu = 0;
  };
  std::vector<Thread> threads(200);
  for (Thread& thread : threads) thread = {chance.Ns(20'000, 1), chance.Below(100'000), chance.Below(32)};
  while (batch.rows() < rows) {
    const int64_t t = chance.Below(static_cast<int64_t>(threads.size()));
    Thread& thread = threads[static_cast<size_t>(t)];
    const int64_t wait = chance.Ns(2'700, 1), dur = chance.Ns(20'000, 1.5);
    if (chance.Below(10) == 0) thread.cpu = chance.Below(32);
    const int64_t on = thread.off + chance.Ns(400'000, 1.5) + wait;
    const bool task_woke = chance.Below(10) < 7;
    const int64_t waker = task_woke ? 40'000 + t + chance.Below(4) : 0;
    const int64_t syscall = std::array<int64_t, 4>{202, 202, 232, -1}[static_cast<size_t>(chance.Below(4))];
    const int64_t arg0 = syscall == 202 ? 0x7F1200000000 + t * 4096 + chance.Below(3) * 64 : syscall == 232 ? 12 : 0;
    const int64_t faults = chance.Below(50) == 0 ? chance.Below(20) : 0;
    batch.Append(static_cast<uint32_t>(t + 1),
                 {on, dur, wait, thread.cpu, waker, task_woke ? 1 : 2, syscall, arg0, syscall == -1 ? 3 : 0, ++thread.seq,
                  dur - chance.Below(200), wait + chance.Below(100), 0, faults, 0});
    thread.off = on + dur;
  }
  return batch;
}

Batch Spans(size_t rows) {
  Chance chance;
  Batch batch = Interned(TableId::kSpan, rows);
  std::vector<int64_t> now(8, 1'000'000'000);
  for (int64_t step = 0; batch.rows() < rows; ++step) {
    for (uint32_t rank = 0; rank < 8; ++rank) {
      const int64_t begin = now[rank];
      for (int64_t part = 0; part < 4; ++part) {
        const int64_t part_begin = now[rank] += chance.Ns(7'400, 0.5);
        for (int64_t layer = 0; layer < 12; ++layer) {
          now[rank] += chance.Ns(2'700, 0.5);
          const int64_t dur = chance.Ns(55'000, 0.3);
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

Batch Counters(size_t rows) {
  constexpr uint32_t kMetrics = 40;
  Chance chance;
  Batch batch = Interned(TableId::kCounter, rows);
  std::vector<double> value(kMetrics);
  for (uint32_t m = 0; m < kMetrics; ++m) value[m] = 1000.0 * (m + 1);
  for (int64_t tick = 0; batch.rows() < rows; ++tick) {
    const int64_t now = 1'000'000'000 + tick * 100'000'000 + chance.Ns(60'000, 0.4);
    for (uint32_t m = 0; m < kMetrics; ++m) {
      const bool grows = m % 2 == 0;
      value[m] =
          grows ? value[m] + std::round(std::abs(50'000 + 9'000 * chance.Normal())) : 40 + std::round(8 * chance.Normal()) / 4;
      batch.Append(m + 1, {now + m * 300 + chance.Below(200), m + 1, std::bit_cast<int64_t>(value[m]), 0});
    }
  }
  return Cut(std::move(batch), rows);
}

Batch DeviceOps(size_t rows) {
  Batch batch = Interned(TableId::kDeviceOp, rows);
  ForEachLaunch(batch, rows, [&](uint32_t device, const Launch& l) {
    batch.Append(device + 1, {l.start, l.dur, 1, 0, 100 + l.shape % 60, 200 + l.shape, l.correlation, 0, 0, 0, 0, 0});
  });
  return Cut(std::move(batch), rows);
}

Batch ApiCalls(size_t rows) {
  Batch batch = Interned(TableId::kApiCall, rows);
  ForEachLaunch(batch, rows, [&](uint32_t device, const Launch& l) {
    batch.Append(device + 1, {l.call_start, l.call_dur, l.shape % 20 == 0 ? 12 : 11, l.correlation, 0});
  });
  return Cut(std::move(batch), rows);
}

}  // namespace stepscope::bench
