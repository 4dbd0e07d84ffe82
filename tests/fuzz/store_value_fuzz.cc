// SPDX-License-Identifier: Apache-2.0
// Any bytes as a key or value of a damaged store: left out or read, in bounded memory. Input: one byte for the kind of row, then
// pieces: key and value in turn.
#include <cstdint>

#include "daemon/ingest/ring_decoder.h"
#include "daemon/jobs/job_table.h"
#include "daemon/pipeline/pipeline.h"
#include "daemon/pipeline/run_state.h"
#include "daemon/upload/manifest.h"
#include "daemon/upload/run_upload.h"
#include "storage/keys.h"
#include "tests/fuzz/pieces.h"
#include "tests/unit/rpc/fake_node.h"

namespace {

using namespace stepscope;
using fuzz::Check;

constexpr RunId kRun{7};
using Rows = std::vector<std::pair<std::string, std::string>>;

/// Gives the same rows as names, roll-ups and upload progress; meta rows are those of FakeStore.
class DamagedStore final : public FakeStore {
 public:
  explicit DamagedStore(const Rows& rows) : rows_(rows) {}
  absl::Status ForEachName(RunId, const std::function<bool(NameId, std::string_view)>& visit) const override {
    for (const auto& [key, value] : rows_) visit({Number(key)}, value);
    return absl::OkStatus();
  }
  absl::Status ForEachRollup(RunId, uint32_t, uint32_t,
                             const std::function<bool(uint32_t, std::string_view)>& visit) const override {
    for (const auto& [key, value] : rows_) visit(Number(key), value);
    return absl::OkStatus();
  }
  absl::Status ForEachUpload(RunId, const std::function<bool(uint32_t, std::string_view)>& visit) const override {
    for (const auto& [key, value] : rows_) visit(Number(key), value);
    return absl::OkStatus();
  }

 private:
  static uint32_t Number(const std::string& key) { return DecodeRunKeyNumber(key).value_or(static_cast<uint32_t>(key.size())); }
  const Rows& rows_;
};

Rows ReadRows(const uint8_t* data, size_t size) {
  Rows rows;
  for (fuzz::Pieces pieces(data, size); !pieces.empty() && rows.size() < 64;) {
    const std::string key(pieces.Next());
    rows.emplace_back(key, pieces.Next());
  }
  return rows;
}

void ReadKeys(const Rows& rows) {
  for (const auto& [key, value] : rows) {
    if (const auto block = DecodeBlockKey(key)) Check(EncodeBlockKey(*block) == key);
    (void)DecodeRunKeyNumber(key);
    const std::string end = PrefixEnd(key);
    Check(end.empty() || end > key);
    (void)EntityOfMetaId(key);
  }
}

/// Names, entities, totals, the number of the next block, minutes: what a run is loaded from, and then used.
void ReadRun(const Rows& rows) {
  DamagedStore store(rows);
  for (const auto& [key, value] : rows) {
    store.meta[{"entity/7", key}] = value;
    store.meta[{"totals", RunMetaId(kRun)}] = value;
  }
  const auto state = RunState::Load(store, kRun);
  Check(state.ok());
  Batch batch = Batch::For(TableId::kSpan, kRun);
  batch.interned = true;
  batch.Append(1, {1, 1, 1, static_cast<int64_t>(SpanDomain::kStep), 1, 1, 0, 0, 0});
  (*state)->rollup.Add(batch, [&](uint32_t lane) { return (*state)->ProcessOf(lane); });
  (void)(*state)->rollup.Dirty();
  (void)EncodeTotals((*state)->totals);
  Check((*state)->names.Intern("new").value != 0);
}

void ReadJobs(const Rows& rows) {
  DamagedStore store(rows);
  for (const auto& [key, value] : rows) {
    store.meta[{"job", key}] = value;
    store.meta[{"run", key}] = value;
  }
  StandingClock clock;
  JobTable jobs(&store, &clock, "boot", "node", JobTable::Hooks{});
  Check(jobs.Load().ok());
  StartJobSpec spec;
  spec.id = spec.name = "next";
  const auto job = jobs.StartJob(spec);
  Check(job.ok() && job->run.value != 0);
  for (const JobSnapshot& known : jobs.List()) (void)jobs.Find(known.name);
}

void ReadPositions(const Rows& rows) {
  SessionIdentity identity;
  identity.session = std::string(16, 's');
  SessionDecoder decoder(&identity);
  SessionRows out(&identity);
  for (const auto& [key, value] : rows) {
    const uint32_t ring = key.empty() ? 0 : static_cast<uint8_t>(key[0]) % 4;
    if (auto state = ParseRingState(value); state.ok()) decoder.Restore(ring, *std::move(state));
    if (const auto name = ParseRingName(value); name.ok()) decoder.RestoreName(ring, static_cast<uint32_t>(value.size()), *name);
    decoder.Decode(ring, std::as_bytes(std::span(key)), out);
  }
  decoder.StartGeneration(1, 5, 6, out);
  decoder.Finish(out);
}

void ReadUploads(const Rows& rows) {
  DamagedStore store(rows);
  FakeDictionary dictionary;
  StandingClock clock;
  RunUpload upload({&store, &dictionary, &clock}, UploadRun{}, 1 << 20);
  if (!upload.Load().ok()) return;
  for (const auto& [number, part] : upload.parts()) Check(!PartManifestText(UploadRun{}, number, part).empty());
  (void)UploadedRows(upload.parts());
  (void)upload.HasPlanned();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const Rows rows = ReadRows(data + 1, size - 1);
  switch (data[0] % 5) {
    case 0:
      ReadKeys(rows);
      break;
    case 1:
      ReadRun(rows);
      break;
    case 2:
      ReadJobs(rows);
      break;
    case 3:
      ReadPositions(rows);
      break;
    default:
      ReadUploads(rows);
      break;
  }
  return 0;
}
