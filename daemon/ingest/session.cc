// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/session.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>

#include "base/status.h"

namespace stepscope {
namespace {

constexpr size_t kMaxPieceBytes = 1 << 20;
constexpr int64_t kStaleNs = kNsPerSecond;

RingBytes BytesOf(const std::string& data) { return std::as_bytes(std::span(data)); }

}  // namespace

Session::Session(Parts parts, SessionIdentity identity, PeerProcess peer, int32_t inner_pid, RingFile file)
    : parts_(std::move(parts)),
      peer_(std::move(peer)),
      tids_(peer_, inner_pid, parts_.tids),
      identity_(std::move(identity)),
      inner_pid_(inner_pid),
      file_(std::move(file)),
      decoder_(&identity_) {
  identity_.host_tid = [this](int32_t inner) { return tids_.Of(inner); };
  identity_.thread_began = [this](int32_t inner) { tids_.Began(inner); };
}

absl::Status Session::Load() {
  STEPSCOPE_ASSIGN_OR_RETURN(const std::vector<PositionRow> positions, parts_.store->Positions(identity_.session));
  STEPSCOPE_ASSIGN_OR_RETURN(const std::vector<SessionNameRow> names, parts_.store->SessionNames(identity_.session));
  for (const PositionRow& row : positions) {
    delivered_[row.ring] = {row.generation, row.position};
    auto state = ParseRingState(row.decoder_state);
    if (state.ok()) decoder_.Restore(row.ring, *std::move(state));
  }
  for (const SessionNameRow& row : names) {
    const auto name = ParseRingName(row.value);
    if (name.ok()) decoder_.RestoreName(row.ring, row.id, *name);
  }
  const std::vector<stepscope_ring_descriptor> descriptors = file_.Descriptors(true);
  for (uint32_t ring = 0; ring < descriptors.size(); ++ring) StartAt(descriptors[ring], ring);
  stored_ = delivered_;
  return absl::OkStatus();
}

/// Bytes an earlier daemon acknowledged and this store does not have are gone: go on behind them, and say so.
void Session::StartAt(const stepscope_ring_descriptor& d, uint32_t ring) {
  if (d.tail == 0 || d.tail > d.head) return;
  const auto known = delivered_.find(ring);
  if (known != delivered_.end() && (known->second.generation > d.generation ||
                                    (known->second.generation == d.generation && known->second.position >= d.tail))) {
    return;
  }
  const bool same = known != delivered_.end() && known->second.generation == d.generation;
  skipped_[ring] = d.tail - (same ? known->second.position : 0);
  if (!same) {
    RingState state = decoder_.ring(ring);
    state.tid = d.tid;
    state.lost_records = d.lost_reported;
    state.last_ticks = std::max(state.last_ticks, d.opened_ticks);
    decoder_.Restore(ring, std::move(state));
  }
  delivered_[ring] = {d.generation, d.tail};
}

void Session::Begin() {
  SessionRows rows(&identity_);
  for (const auto& [ring, bytes] : skipped_) decoder_.TellSkipped(ring, LossStage::kAgent, LossReason::kDaemonAway, bytes, rows);
  skipped_.clear();
  Deliver(rows, nullptr, false);
}

/// Makes `generation` the ring's current one; false when it is over already.
bool Session::TakeGeneration(uint32_t ring, uint32_t generation, SessionRows& rows) {
  const auto known = delivered_.find(ring);
  if (known != delivered_.end() && known->second.generation > generation) return false;
  if (known == delivered_.end() || known->second.generation < generation) {
    decoder_.StartGeneration(ring, 0, 0, rows);
    delivered_[ring] = {generation, 0};
  }
  return true;
}

absl::StatusOr<Session::Taken> Session::Push(RingPiece piece, const std::shared_ptr<AckSink>& origin) {
  if (piece.ring >= STEPSCOPE_RING_SLOTS || piece.to < piece.from || piece.to - piece.from != piece.data.size() ||
      piece.data.size() > kMaxPieceBytes) {
    parts_.stats->Reject("push makes no sense");
    return absl::InvalidArgumentError(
        fmt::format("ring {}: bytes [{}, {}) with {} bytes of data; a push carries at most {} bytes", piece.ring, piece.from,
                    piece.to, piece.data.size(), kMaxPieceBytes));
  }
  const auto known = delivered_.find(piece.ring);
  const RingAt at = known == delivered_.end() ? RingAt{piece.generation, 0} : known->second;
  if (finished_ || piece.generation < at.generation) return Taken::kKnown;
  const uint64_t position = piece.generation == at.generation ? at.position : 0;
  if (piece.from > position) {
    parts_.stats->Reject("hole");
    return absl::FailedPreconditionError(
        fmt::format("ring {} generation {}: bytes from {} were pushed, but the daemon stands at {}; "
                    "start again from the stored positions",
                    piece.ring, piece.generation, piece.from, position));
  }
  {
    const std::lock_guard lock(mu_);
    pushed_[piece.ring] = {piece.generation, piece.to};
  }
  if (piece.to <= position) return Taken::kKnown;
  pushed_bytes_ += piece.to - position;
  piece.data.erase(0, position - piece.from);
  piece.from = position;
  if (!Advance(piece, origin)) return absl::UnavailableError("the daemon is stopping; the bytes stay in the ring");
  return Taken::kDelivered;
}

/// Decodes a piece that begins where the ring stands, and delivers its rows with the new position.
bool Session::Advance(const RingPiece& piece, const std::shared_ptr<AckSink>& origin) {
  SessionRows rows(&identity_);
  if (!TakeGeneration(piece.ring, piece.generation, rows)) return true;
  decoder_.Decode(piece.ring, BytesOf(piece.data), rows);
  delivered_[piece.ring].position = piece.to;
  parts_.stats->Update([&](IngestNumbers& n) {
    n.bytes += piece.data.size();
    n.salvaged_bytes += origin == nullptr ? piece.data.size() : 0;
  });
  return Deliver(rows, origin, false);
}

void Session::Drain(bool all) {
  if (finished_ || stopping_) return;
  const std::vector<stepscope_ring_descriptor> descriptors = file_.Descriptors(all);
  uint64_t room = file_.bytes();  // the rings of an honest file do not overlap
  for (uint32_t ring = 0; ring < descriptors.size(); ++ring) {
    const auto known = delivered_.find(ring);
    const RingAt at = known == delivered_.end() ? RingAt{descriptors[ring].generation, 0} : known->second;
    if (descriptors[ring].head != at.position || descriptors[ring].generation != at.generation) DrainRing(ring, &room);
  }
}

void Session::DrainRing(uint32_t ring, uint64_t* room) {
  const auto d = file_.Descriptor(ring);
  if (!d.ok() || d->head == 0) return;
  const auto known = delivered_.find(ring);
  const bool same = known != delivered_.end() && known->second.generation == d->generation;
  if (known != delivered_.end() && known->second.generation > d->generation) return;
  const uint64_t from = same ? known->second.position : 0;
  if (d->head <= from) return;
  const bool fits = d->head - from <= *room;
  const auto bytes = fits ? file_.Read(*d, from, d->head) : absl::DataLossError("rings overlap");
  if (bytes.ok()) *room -= bytes->size();
  if (!bytes.ok()) {
    SessionRows rows(&identity_);
    TakeGeneration(ring, d->generation, rows);
    decoder_.TellSkipped(ring, LossStage::kIngest, LossReason::kMalformed, d->head - from, rows);
    delivered_[ring].position = d->head;
    ++rows.malformed;
    Deliver(rows, nullptr, false);
    return;
  }
  for (uint64_t done = 0; done < bytes->size();) {
    const size_t length = WholeRecords(BytesOf(*bytes).subspan(done), kMaxPieceBytes);
    const uint64_t begin = from + done;
    if (!Advance({ring, d->generation, begin, begin + length, bytes->substr(done, length)}, nullptr)) return;
    done += length;
  }
}

void Session::Poll(int64_t now_ns) {
  if (finished_ || stopping_) return;
  const auto header = file_.Header();
  if (!header.ok()) return;
  TellHeader(*header);
  if (header->heartbeat != heartbeat_ || heartbeat_seen_ns_ == 0) {
    heartbeat_ = header->heartbeat;
    heartbeat_seen_ns_ = now_ns;
  }
  const bool stale = now_ns - heartbeat_seen_ns_ >= kStaleNs;
  if (stale && superseded_) return Finish();
  // A sender that pushes as fast as it can needs no help; the bytes would come twice.
  constexpr uint64_t kMuchBytes = 64 << 10;
  if (stale || header->heartbeat == 0 || std::exchange(pushed_bytes_, 0) < kMuchBytes) Drain();
}

void Session::TellHeader(const stepscope_ring_header& header) {
  if (header.sender_cpu_ns > sender_cpu_ns_) {
    parts_.jobs->AddSenderCpu(identity_.run, static_cast<int64_t>(header.sender_cpu_ns - sender_cpu_ns_));
    sender_cpu_ns_ = header.sender_cpu_ns;
  }
  if (header.no_ring_lost <= decoder_.ring(0).no_ring_lost) return;
  SessionRows rows(&identity_);
  decoder_.TellNoRingLoss(header.no_ring_lost, header.no_ring_first_ticks, header.no_ring_last_ticks, rows);
  Deliver(rows, nullptr, false);
}

void Session::TellUntoldLoss(SessionRows& rows) {
  const std::vector<stepscope_ring_descriptor> descriptors = file_.Descriptors(true);
  for (uint32_t ring = 0; ring < descriptors.size(); ++ring) {
    const stepscope_ring_descriptor& d = descriptors[ring];
    const auto known = delivered_.find(ring);
    if (known != delivered_.end() && known->second.generation != d.generation) continue;
    decoder_.TellRingLoss(ring, d.lost_records, d.lost_bytes, d.lost_first_ticks, d.lost_last_ticks, rows);
  }
}

void Session::Finish() {
  if (finished_ || stopping_) return;
  Drain(true);
  if (const auto header = file_.Header(); header.ok()) TellHeader(*header);
  SessionRows rows(&identity_);
  TellUntoldLoss(rows);
  decoder_.Finish(rows);
  if (Deliver(rows, nullptr, true)) finished_ = true;
}

bool Session::Deliver(SessionRows& rows, const std::shared_ptr<AckSink>& origin, bool last) {
  if (!process_noted_ && peer_.key.pid.value != 0) {
    process_noted_ = true;
    rows.NoteProcess(peer_.comm, parts_.jobs->RankOf(identity_.run, peer_.key), inner_pid_);
  }
  for (const AnchorRow& anchor : rows.anchors) {
    parts_.clocks->AddAnchor(identity_.clock, {{anchor.ticks}, anchor.ticks_width, {anchor.monotonic_ns}});
  }
  for (const auto& [key, value] : rows.facts) parts_.jobs->AddFact(identity_.run, key, value);
  parts_.stats->Update([&](IngestNumbers& n) {
    n.records += rows.records;
    n.malformed += rows.malformed;
  });
  RingPositions positions;
  for (const uint32_t ring : decoder_.TakeTouched()) positions[ring] = delivered_[ring];
  if (rows.empty() && positions.empty() && !last) return true;
  Delivery delivery = rows.Take();
  for (const auto& [ring, at] : positions) {
    delivery.positions.push_back({identity_.session, ring, at.generation, at.position, EncodeRingState(decoder_.ring(ring))});
  }
  delivery.on_stored = [self = shared_from_this(), positions, origin, last](const absl::Status& status) {
    self->OnStored(positions, status, origin, last);
  };
  ++delivered_count_;
  stopping_ = !parts_.sink->Deliver(std::move(delivery));
  return !stopping_;
}

void Session::OnStored(const RingPositions& positions, const absl::Status& status, const std::shared_ptr<AckSink>& origin,
                       bool last) {
  if (!status.ok()) {
    return Disconnect(
        absl::UnavailableError(fmt::format("rows could not be stored: {}; reconnect later", std::string(status.message()))));
  }
  std::shared_ptr<AckSink> stream;
  RingPositions awaited;
  {
    const std::lock_guard lock(mu_);
    for (const auto& [ring, at] : positions) {
      stored_[ring] = at;
      const auto pushed = pushed_.find(ring);
      if (pushed == pushed_.end()) continue;
      awaited[ring] = at;
      if (at.generation > pushed->second.generation || at.position >= pushed->second.position) pushed_.erase(pushed);
    }
    ++stored_count_;
    stream = stream_;
  }
  stored_changed_.notify_all();
  if (stream != nullptr && !awaited.empty()) stream->Ack(awaited);
  if (origin != nullptr) origin->Settled();
  if (last) parts_.over(shared_from_this());
}

std::vector<stepscope_hello_position> Session::StoredPositions() const {
  const std::lock_guard lock(mu_);
  std::vector<stepscope_hello_position> positions;
  for (const auto& [ring, at] : stored_) positions.push_back({ring, at.generation, at.position});
  return positions;
}

RingPositions Session::Stored() const {
  const std::lock_guard lock(mu_);
  return stored_;
}

void Session::Connect(unique_fd connection) {
  const std::lock_guard lock(mu_);
  if (connection_.ok()) shutdown(connection_.get(), SHUT_RDWR);
  connection_ = std::move(connection);
}

void Session::Attach(std::shared_ptr<AckSink> stream) {
  std::shared_ptr<AckSink> before;
  {
    const std::lock_guard lock(mu_);
    before = std::exchange(stream_, std::move(stream));
  }
  if (before != nullptr) before->End(absl::AbortedError("a newer stream of the same session took over"));
}

void Session::Detach(const AckSink* stream) {
  const std::lock_guard lock(mu_);
  if (stream_.get() == stream) stream_.reset();
}

void Session::Disconnect(const absl::Status& status) {
  std::shared_ptr<AckSink> stream;
  {
    const std::lock_guard lock(mu_);
    stream = std::exchange(stream_, nullptr);
    if (connection_.ok()) shutdown(connection_.get(), SHUT_RDWR);
    connection_.reset();
  }
  if (stream != nullptr) stream->End(status);
}

bool Session::WaitStored(uint64_t count, int64_t timeout_ns) {
  std::unique_lock lock(mu_);
  return stored_changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), [&] { return stored_count_ >= count; });
}

}  // namespace stepscope
