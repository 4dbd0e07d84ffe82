// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/encoding/ring_records.h"

#include <stdlib.h>

#include <array>
#include <bit>
#include <filesystem>
#include <span>

#include "agent/core/ring_writer.h"
#include "daemon/ingest/ring_decoder.h"

namespace stepscope::bench {
namespace {

constexpr uint64_t kSpansPerGroup = 4;
constexpr uint64_t kMostBytesPerSpan = 48;
constexpr size_t kPushBytes = 64 << 10;
constexpr RunId kRun{1};
constexpr ClockId kClock{1};

/// Readings of a made-up clock of 1 ns, 15 to 31 us apart.
class Ticks {
 public:
  uint64_t Next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return now_ += 15'000 + (state_ >> 50);
  }

 private:
  uint64_t now_ = 1'000'000'000, state_ = 42;
};

const SessionIdentity& Identity() {
  static const SessionIdentity identity = [] {
    SessionIdentity made;
    made.session = std::string(16, 's');
    made.run = kRun;
    made.clock = kClock;
    made.process = {{1000}, 1};
    return made;
  }();
  return identity;
}

}  // namespace

std::string WriteRing(uint64_t spans) {
  static agent::NameTable names;
  std::array<stepscope_name, 24> layers;
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::string text = "layer " + std::string(1, static_cast<char>('a' + i));
    layers[i] = {names.Intern(text.data(), text.size(), 0), 0, 0};
  }
  stepscope_ring_descriptor descriptor{};
  descriptor.data_bytes = std::bit_ceil(spans * kMostBytesPerSpan + (64 << 10));
  std::string ring(descriptor.data_bytes, '\0');
  const auto writer = std::make_unique<agent::RingWriter>();
  writer->Open(&descriptor, reinterpret_cast<uint8_t*>(ring.data()), &names, {1, 1001, "rank 0"}, 1);
  Ticks ticks;
  for (uint64_t group = 0; group < spans / kSpansPerGroup; ++group) {
    writer->Begin(layers[group % layers.size()], ticks.Next());
    for (uint64_t inner = 1; inner < kSpansPerGroup; ++inner) {
      stepscope_name name = layers[(group + inner) % layers.size()];
      name.has_number = 1;
      name.number = static_cast<int64_t>(group);
      writer->Begin(name, ticks.Next());
      writer->End(ticks.Next());
    }
    writer->End(ticks.Next());
  }
  ring.resize(descriptor.head);
  return ring;
}

std::vector<Delivery> DecodeRing(const std::string& ring) {
  SessionDecoder decoder(&Identity());
  std::vector<Delivery> deliveries;
  for (RingBytes left = std::as_bytes(std::span(ring)); !left.empty();) {
    const size_t length = WholeRecords(left, kPushBytes);
    SessionRows rows(&Identity());
    decoder.Decode(1, left.first(length), rows);
    deliveries.push_back(rows.Take());
    left = left.subspan(length);
  }
  return deliveries;
}

RingStore::RingStore() {
  path_ = std::filesystem::temp_directory_path() / "stepscope-bench-XXXXXX";
  if (mkdtemp(path_.data()) == nullptr) abort();
  store_ = Store::Open({.path = path_ + "/store"}).value();
  clocks_.Register(kClock, 0, {1.0, 1e-6});
  for (int64_t second = 1; second < 200; ++second) {
    clocks_.AddAnchor(kClock, {{static_cast<uint64_t>(second * kNsPerSecond)}, 60, {second * kNsPerSecond}});
  }
  pipeline_ = std::make_unique<Pipeline>(store_.get(), &clocks_, &clock_, Pipeline::Options{});
  pipeline_->Start();
}

RingStore::~RingStore() {
  pipeline_.reset();
  store_.reset();
  std::filesystem::remove_all(path_);
}

void RingStore::Add(std::vector<Delivery> deliveries) {
  for (Delivery& delivery : deliveries) pipeline_->Deliver(std::move(delivery));
  if (!pipeline_->Drain().ok()) abort();
}

TableTotal RingStore::Totals() const {
  TableTotal total = pipeline_->Totals(kRun).tables[TableId::kSpan];
  total.rows = 0;
  const TableReader reader(store_.get(), pipeline_.get());
  const absl::Status read = reader.ForEachBatch(kRun, TableId::kSpan, {0}, {INT64_MAX / 2}, [&](const Batch& batch) {
    total.rows += batch.rows();
    return true;
  });
  if (!read.ok()) abort();
  return total;
}

}  // namespace stepscope::bench
