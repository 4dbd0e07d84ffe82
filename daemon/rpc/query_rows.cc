// SPDX-License-Identifier: Apache-2.0
// ListTracks and GetSlices: the lanes of a run and the plain rows on them.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "base/status.h"
#include "base/valid_utf8.h"
#include "daemon/rpc/job_proto.h"
#include "daemon/rpc/query_handlers.h"
#include "daemon/rpc/row_scan.h"

namespace stepscope {
namespace {

constexpr size_t kMostTracks = 10'000;
constexpr uint32_t kDefaultRows = 1'000;
constexpr uint32_t kMostRows = 100'000;

struct Row {
  int64_t start;
  uint32_t lane;
  std::vector<int64_t> values;
};

/// The first `limit` rows in the order asked for, in bounded memory.
class FirstRows {
 public:
  FirstRows(size_t limit, bool newest_first) : limit_(limit), newest_first_(newest_first) {}
  /// A row that starts then is counted; false when it cannot be among the first, so nobody needs to make it.
  bool Count(int64_t start) {
    ++total_;
    return !last_start_ || (newest_first_ ? start >= *last_start_ : start <= *last_start_);
  }
  void Add(Row row) {
    rows_.push_back(std::move(row));
    if (rows_.size() >= 2 * limit_ + 1024) Trim();
  }
  std::vector<Row> Take() {
    Trim();
    std::sort(rows_.begin(), rows_.end(), Order());
    return std::move(rows_);
  }
  uint64_t total() const { return total_; }

 private:
  std::function<bool(const Row&, const Row&)> Order() const {
    if (newest_first_)
      return [](const Row& a, const Row& b) { return std::tie(a.start, a.lane, a.values) > std::tie(b.start, b.lane, b.values); };
    return [](const Row& a, const Row& b) { return std::tie(a.start, a.lane, a.values) < std::tie(b.start, b.lane, b.values); };
  }
  void Trim() {
    if (rows_.size() <= limit_) return;
    std::nth_element(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(limit_), rows_.end(), Order());
    rows_.resize(limit_);
    if (!rows_.empty()) last_start_ = std::max_element(rows_.begin(), rows_.end(), Order())->start;
  }

  const size_t limit_;
  const bool newest_first_;
  std::vector<Row> rows_;
  std::optional<int64_t> last_start_;  ///< of the rows kept, once there are as many as asked for
  uint64_t total_ = 0;
};

bool Touches(int64_t start, int64_t dur, TimeRange range) {
  return start < range.end.ns && (start >= range.begin.ns || start + dur > range.begin.ns);
}

/// Turns column values into words; names are looked up once.
class RowWriter {
 public:
  RowWriter(const RpcParts& parts, const LaneFacts& lanes, RunId run, const TableSpec& table)
      : parts_(parts), lanes_(lanes), run_(run), table_(table) {}

  void Fill(const Row& row, v1::Slice* slice) {
    slice->set_lane(row.lane);
    slice->set_start_ns(row.start);
    bool name_taken = false;
    for (size_t c = 1; c < row.values.size(); ++c) {
      const ColumnSpec& column = table_.columns[c];
      const int64_t value = row.values[c];
      if (c == 1 && column.kind == ColumnKind::kDuration) {
        slice->set_dur_ns(value);
      } else if (column.kind == ColumnKind::kName && !name_taken) {
        slice->set_name(Name(value));
        name_taken = true;
      } else {
        FillField(column, value, slice->add_fields());
      }
    }
  }

 private:
  const std::string& Name(int64_t id) {
    const auto [it, is_new] = names_.try_emplace(id);
    if (is_new) it->second = ValidUtf8(parts_.dictionary->Name(run_, NameId{static_cast<uint32_t>(id)}));
    return it->second;
  }
  void FillField(const ColumnSpec& column, int64_t value, v1::Field* field) {
    field->set_name(std::string(column.name));
    switch (column.kind) {
      case ColumnKind::kName:
        field->set_text(Name(value));
        break;
      case ColumnKind::kEntity:
        field->set_text(lanes_.Label(static_cast<uint32_t>(std::max<int64_t>(0, value))));
        break;
      case ColumnKind::kReal:
        field->set_real(std::bit_cast<double>(value));
        break;
      default:
        field->set_integer(value);
        break;
    }
  }

  const RpcParts& parts_;
  const LaneFacts& lanes_;
  const RunId run_;
  const TableSpec& table_;
  std::unordered_map<int64_t, std::string> names_;
};

absl::StatusOr<const TableSpec*> TableOf(const std::string& name) {
  if (const TableSpec* table = FindTable(std::string_view(name))) return table;
  std::string known;
  for (const TableSpec& table : AllTables()) known += (known.empty() ? "" : ", ") + std::string(table.name);
  return absl::InvalidArgumentError(fmt::format("no table \"{}\"; there is {}", ValidUtf8(name.substr(0, 64)), known));
}

void CollectRows(const Batch& batch, const TableSpec& table, const std::set<uint32_t>& lanes, TimeRange range, FirstRows* rows) {
  const bool has_dur = table.columns.size() > 1 && table.columns[1].kind == ColumnKind::kDuration;
  for (size_t i = 0; i < batch.rows(); ++i) {
    const int64_t start = batch.columns[0][i];
    if (!Touches(start, has_dur ? batch.columns[1][i] : 0, range)) continue;
    if (!lanes.empty() && !lanes.contains(batch.lane[i])) continue;
    if (!rows->Count(start)) continue;
    Row row{start, batch.lane[i], {}};
    row.values.reserve(table.columns.size());
    for (const auto& column : batch.columns) row.values.push_back(column[i]);
    rows->Add(std::move(row));
  }
}

const char* TrackKind(EntityKind kind) {
  switch (kind) {
    case EntityKind::kProcess:
      return "process";
    case EntityKind::kThread:
      return "thread";
    case EntityKind::kCpu:
      return "cpu";
    case EntityKind::kRank:
      return "rank";
    case EntityKind::kMetric:
      return "metric";
    case EntityKind::kDevice:
      return "device";
    case EntityKind::kQueue:
      return "queue";
    default:
      return "node";
  }
}

void FillTrack(uint32_t lane, const LaneFact& fact, const std::map<TableId, uint64_t>& rows, v1::Track* track) {
  track->set_lane(lane);
  track->set_kind(TrackKind(fact.kind));
  track->set_name(fact.name);
  track->set_pid(fact.pid);
  track->set_tid(fact.tid);
  track->set_rank(fact.rank);
  track->set_inner_id(fact.inner_id);
  for (const auto& [table, count] : rows) {
    v1::TableCount* message = track->add_tables();
    message->set_table(std::string(FindTable(table)->name));
    message->set_rows(count);
  }
}

}  // namespace

absl::Status QueryHandlers::ListTracks(Call& call, const v1::ListTracksRequest& request, v1::ListTracksResponse* response) const {
  STEPSCOPE_ASSIGN_OR_RETURN(const JobSnapshot job, access_->JobOf(call.peer, request.job()));
  STEPSCOPE_ASSIGN_OR_RETURN(const QueryRange range, RangeOf(job, 0, 0, *parts_.clock));
  std::map<uint32_t, std::map<TableId, uint64_t>> rows;
  Holes ignored;
  for (const TableSpec& table : AllTables()) {
    STEPSCOPE_RETURN_IF_ERROR(ScanRows(parts_, job, table.id, range.rows, &call.budget, &ignored, [&](const Batch& batch) {
      for (const uint32_t lane : batch.lane) ++rows[lane][table.id];
    }));
  }
  const LaneFacts lanes(*parts_.dictionary, *parts_.jobs, job.run);
  uint64_t bytes = 0;
  response->set_cut(call.budget.exhausted());
  for (const auto& [lane, tables] : rows) {
    v1::Track track;
    FillTrack(lane, lanes.Of(lane), tables, &track);
    bytes += track.ByteSizeLong() + 8;
    if (response->tracks_size() >= static_cast<int>(kMostTracks) || bytes > kMaxAnswerBytes) {
      response->set_cut(true);
      break;
    }
    *response->add_tracks() = std::move(track);
  }
  return absl::OkStatus();
}

absl::Status QueryHandlers::GetSlices(Call& call, const v1::GetSlicesRequest& request, v1::GetSlicesResponse* response) const {
  STEPSCOPE_ASSIGN_OR_RETURN(const JobSnapshot job, access_->JobOf(call.peer, request.job()));
  STEPSCOPE_ASSIGN_OR_RETURN(const TableSpec* table, TableOf(request.table()));
  STEPSCOPE_ASSIGN_OR_RETURN(const QueryRange range, RangeOf(job, request.begin_ns(), request.end_ns(), *parts_.clock));
  const std::set<uint32_t> wanted(request.lanes().begin(), request.lanes().end());
  const uint32_t limit = request.limit() == 0 ? kDefaultRows : std::min(request.limit(), kMostRows);

  const std::vector<uint32_t> lane_list(wanted.begin(), wanted.end());
  FirstRows first(limit, request.newest_first());
  STEPSCOPE_RETURN_IF_ERROR(ScanRows(
      parts_, job, table->id, range.rows, &call.budget, response->mutable_holes(),
      [&](const Batch& batch) { CollectRows(batch, *table, wanted, range.rows, &first); }, lane_list));
  const LaneFacts lanes(*parts_.dictionary, *parts_.jobs, job.run);
  STEPSCOPE_RETURN_IF_ERROR(FillHoles(parts_, job, lanes, range.rows, &call.budget, response->mutable_holes()));

  RowWriter writer(parts_, lanes, job.run, *table);
  uint64_t bytes = response->ByteSizeLong();
  for (const Row& row : first.Take()) {
    v1::Slice slice;
    writer.Fill(row, &slice);
    bytes += slice.ByteSizeLong() + 8;
    if (bytes > kMaxAnswerBytes) break;
    *response->add_slices() = std::move(slice);
  }
  response->set_total(first.total());
  response->set_cut(call.budget.exhausted() || first.total() > static_cast<uint64_t>(response->slices_size()));
  response->set_final(IsOver(job));
  return absl::OkStatus();
}

}  // namespace stepscope
