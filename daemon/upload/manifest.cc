// SPDX-License-Identifier: Apache-2.0
#include "daemon/upload/manifest.h"

#include <fmt/format.h>

#include <cstdlib>

#include "daemon/upload/json_text.h"

namespace stepscope {
namespace {

/// Wall clock offsets that differ by less than this count as one in a manifest.
constexpr int64_t kWallStepNs = kNsPerMillisecond;

void WriteIdentity(JsonText& json, const UploadRun& run) {
  json.Int("schema_version", kManifestSchemaVersion);
  json.Text("job", fmt::format("{}.{}.{}", run.uid, run.kind, run.id)).Text("job_name", run.job_name);
  json.Int("uid", run.uid).Text("kind", run.kind).Text("id", run.id).Int("attempt", run.attempt);
  json.Text("node", run.node).Int("run", run.run.value).Text("boot_id", run.boot_id);
}

std::string TableName(uint32_t table) {
  const TableSpec* spec = FindTable(static_cast<TableId>(table));
  return spec != nullptr ? std::string(spec->name) : fmt::format("table {}", table);
}

void WriteFiles(JsonText& json, uint32_t part, const store::v1::UploadPart& record) {
  for (const store::v1::UploadFile& file : record.files()) {
    json.BeginObject().Int("part", part).Text("table", TableName(file.table())).Text("path", file.path());
    json.Int("rows", static_cast<int64_t>(file.rows()))
        .Int("bytes", static_cast<int64_t>(file.bytes()))
        .Text("sha256", file.sha256());
    json.EndObject();
  }
}

void WriteRows(JsonText& json, std::string_view key, const std::map<TableId, uint64_t>& rows) {
  json.BeginObject(key);
  for (const auto& [table, count] : rows) json.Int(TableName(static_cast<uint32_t>(table)), static_cast<int64_t>(count));
  json.EndObject();
}

void WritePair(JsonText& json, const WallClockMap::Pair& pair) {
  json.BeginObject().Int("node_time_ns", pair.node_ns).Int("wall_time_ns", pair.wall_ns).EndObject();
}

/// First pair, every step, last pair: the rest is in table clock_sample.
void WriteClocks(JsonText& json, const ClosingFacts& facts) {
  json.BeginObject("clock").Int("error_ns", facts.wall_error_ns).BeginArray("wall");
  const auto& pairs = facts.wall->pairs();
  int64_t shown_offset = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const int64_t offset = pairs[i].wall_ns - pairs[i].node_ns;
    const bool step = std::llabs(offset - shown_offset) >= kWallStepNs;
    if (i != 0 && i + 1 != pairs.size() && !step) continue;
    WritePair(json, pairs[i]);
    shown_offset = offset;
  }
  json.EndArray().EndObject();
}

void WriteLoss(JsonText& json, const store::v1::RunRecord& record) {
  json.BeginArray("loss");
  for (const store::v1::LossRecord& loss : record.loss()) {
    json.BeginObject().Int("stage", loss.stage()).Int("reason", loss.reason()).Int("table_id", loss.table());
    json.Int("count", loss.count()).Int("bytes", loss.bytes()).EndObject();
  }
  json.EndArray();
}

}  // namespace

std::string PartManifestText(const UploadRun& run, uint32_t part, const store::v1::UploadPart& record) {
  JsonText json;
  json.BeginObject();
  WriteIdentity(json, run);
  json.Int("part", part).BeginArray("files");
  WriteFiles(json, part, record);
  json.EndArray().EndObject();
  return json.text() + "\n";
}

std::map<TableId, uint64_t> UploadedRows(const std::map<uint32_t, store::v1::UploadPart>& parts) {
  std::map<TableId, uint64_t> rows;
  for (const auto& [number, part] : parts) {
    for (const store::v1::UploadFile& file : part.files()) rows[static_cast<TableId>(file.table())] += file.rows();
  }
  return rows;
}

std::string ClosingManifestText(const UploadRun& run, const ClosingFacts& facts) {
  const std::map<TableId, uint64_t> uploaded = UploadedRows(*facts.parts);
  const bool complete = facts.damaged_blocks == 0 && uploaded == facts.stored_rows;
  JsonText json;
  json.BeginObject();
  WriteIdentity(json, run);
  json.Text("state", complete ? "complete" : "partial").Int("nodes_expected", run.nodes_expected);
  json.Int("start_node_time_ns", run.start_node.ns).Int("start_wall_time_ns", run.start_wall.ns);
  json.Int("end_node_time_ns", run.end_node.ns).Int("end_wall_time_ns", run.end_wall.ns);
  WriteRows(json, "rows", uploaded);
  WriteRows(json, "stored_rows", facts.stored_rows);
  json.Int("damaged_blocks", static_cast<int64_t>(facts.damaged_blocks));
  WriteLoss(json, facts.record);
  WriteClocks(json, facts);
  json.BeginArray("files");
  for (const auto& [number, part] : *facts.parts) WriteFiles(json, number, part);
  json.EndArray().EndObject();
  return json.text() + "\n";
}

}  // namespace stepscope
