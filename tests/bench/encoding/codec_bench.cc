// SPDX-License-Identifier: Apache-2.0
// Bytes and CPU per row of the block codec and of the way from ring records to the store, on made-up rows (rows.h).
//
//   codec_bench [--benchmark_…]         ns per row are items_per_second turned over; the counter "bytes" is per row
//   codec_bench rows SHAPE ROWS FILE    the rows of a shape as int64 columns, lane first, for other formats to encode;
//                                       prints the names of the columns
//   codec_bench store SPANS             writes, decodes and stores a ring once, for tools that count instructions; prints rows
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <zstd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/bench/encoding/ring_records.h"
#include "tests/bench/encoding/rows.h"
#include "trace/block.h"

namespace stepscope::bench {
namespace {

constexpr uint64_t kRingSpans = 200'000;

void Report(benchmark::State& state, size_t rows, double bytes_per_row) {
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * rows));
  state.counters["bytes"] = bytes_per_row;
}

double PerRow(size_t bytes, size_t rows) { return static_cast<double>(bytes) / static_cast<double>(rows); }

void Encode(benchmark::State& state, const Shape& shape) {
  const Batch batch = shape.make(static_cast<size_t>(state.range(0)));
  size_t bytes = 0;
  for (auto _ : state) bytes = EncodeBlock(batch)->size();
  Report(state, batch.rows(), PerRow(bytes, batch.rows()));
}

void Decode(benchmark::State& state, const Shape& shape) {
  const Batch batch = shape.make(static_cast<size_t>(state.range(0)));
  const std::string bytes = *EncodeBlock(batch);
  for (auto _ : state) benchmark::DoNotOptimize(DecodeBlock(bytes)->batch.lane.data());
  Report(state, batch.rows(), PerRow(bytes.size(), batch.rows()));
}

void RingWrite(benchmark::State& state) {
  size_t bytes = 0;
  for (auto _ : state) bytes = WriteRing(kRingSpans).size();
  Report(state, kRingSpans, PerRow(bytes, kRingSpans));
}

void RingDecode(benchmark::State& state) {
  const std::string ring = WriteRing(kRingSpans);
  for (auto _ : state) benchmark::DoNotOptimize(DecodeRing(ring).data());
  Report(state, kRingSpans, PerRow(ring.size(), kRingSpans));
}

/// CPU of the whole process: the pipeline's thread and those of the store work for it. Fails when a row is missing.
void RingToStore(benchmark::State& state) {
  const std::string ring = WriteRing(kRingSpans);
  RingStore store;
  for (auto _ : state) {
    state.PauseTiming();
    std::vector<Delivery> deliveries = DecodeRing(ring);
    state.ResumeTiming();
    store.Add(std::move(deliveries));
  }
  const TableTotal total = store.Totals();
  if (total.rows != state.iterations() * kRingSpans) state.SkipWithError("rows are missing");
  Report(state, kRingSpans, PerRow(total.stored_bytes, total.rows));
}

/// For scale: what compressing the bytes of the ring costs that RingDecode and RingToStore turn into stored rows.
void RingZstd(benchmark::State& state) {
  const std::string ring = WriteRing(kRingSpans);
  std::string packed(ZSTD_compressBound(ring.size()), '\0');
  size_t bytes = 0;
  for (auto _ : state) bytes = ZSTD_compress(packed.data(), packed.size(), ring.data(), ring.size(), 1);
  Report(state, kRingSpans, PerRow(bytes, kRingSpans));
}

void Register() {
  for (const Shape& shape : Shapes()) {
    const std::string name(shape.name);
    benchmark::RegisterBenchmark(("encode/" + name).c_str(), Encode, shape)->Arg(2048)->Arg(kMaxBlockRows);
    benchmark::RegisterBenchmark(("decode/" + name).c_str(), Decode, shape)->Arg(kMaxBlockRows);
  }
  benchmark::RegisterBenchmark("ring/write", RingWrite);
  benchmark::RegisterBenchmark("ring/decode", RingDecode);
  benchmark::RegisterBenchmark("ring/store", RingToStore)->MeasureProcessCPUTime();
  benchmark::RegisterBenchmark("ring/zstd", RingZstd);
}

int WriteRows(std::string_view shape_name, size_t rows, const char* path) {
  for (const Shape& shape : Shapes()) {
    if (shape.name != shape_name) continue;
    const Batch batch = shape.make(rows);
    std::ofstream out(path, std::ios::binary);
    const auto write = [&](const std::vector<int64_t>& column) {
      out.write(reinterpret_cast<const char*>(column.data()), static_cast<std::streamsize>(column.size() * sizeof(int64_t)));
    };
    write({batch.lane.begin(), batch.lane.end()});
    for (const auto& column : batch.columns) write(column);
    for (const ColumnSpec& column : FindTable(batch.table)->columns) fmt::print("{}\n", column.name);
    return out.good() ? 0 : 1;
  }
  fmt::print(stderr, "no shape {}\n", shape_name);
  return 2;
}

int StoreOnce(uint64_t spans) {
  RingStore store;
  store.Add(DecodeRing(WriteRing(spans)));
  fmt::print("{}\n", store.Totals().rows);
  return 0;
}

}  // namespace
}  // namespace stepscope::bench

int main(int argc, char** argv) {
  if (argc == 5 && std::string_view(argv[1]) == "rows") {
    return stepscope::bench::WriteRows(argv[2], std::strtoul(argv[3], nullptr, 10), argv[4]);
  }
  if (argc == 3 && std::string_view(argv[1]) == "store") return stepscope::bench::StoreOnce(std::strtoul(argv[2], nullptr, 10));
  stepscope::bench::Register();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
