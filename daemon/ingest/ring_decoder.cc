// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/ring_decoder.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/valid_utf8.h"

namespace stepscope {
namespace {

constexpr size_t kMaxThreads = 65'536;  // of a session; the run remembers each
constexpr size_t kMaxTokens = 4096;     // open, and waiting ends, of a session: their state is rewritten with each position

std::string_view TextOf(RingBytes record, size_t fixed_bytes, size_t bytes) {
  return {reinterpret_cast<const char*>(record.data()) + fixed_bytes, bytes};
}

int64_t CutFlag(const NameEntry& name) { return (name.flags & 1) != 0 ? int64_t{kSpanNameCut} : 0; }

std::string CommOf(const char (&comm)[16]) { return ValidUtf8({comm, strnlen(comm, sizeof(comm))}); }

}  // namespace

void SessionDecoder::Saw(RingState& state, uint64_t ticks) {
  state.last_ticks = std::max(state.last_ticks, ticks);
  last_ticks_ = std::max(last_ticks_, ticks);
}

void SessionDecoder::Restore(uint32_t ring, RingState state) {
  last_ticks_ = std::max(last_ticks_, state.last_ticks);
  for (const auto& [token, open] : state.tokens) token_rings_[token] = ring;
  for (const auto& [token, ticks] : state.token_ends) token_end_rings_[token] = ring;
  rings_[ring] = std::move(state);
}

void SessionDecoder::Decode(uint32_t ring, RingBytes bytes, SessionRows& rows) {
  RingState& state = rings_[ring];
  touched_.insert(ring);
  const size_t bad = WalkRecords(bytes, [&](const stepscope_record& header, RingBytes record) {
    ++rows.records;
    DecodeRecord(ring, state, header, record, rows);
  });
  if (bad > 0) Lose(state, LossReason::kMalformed, static_cast<int64_t>(bad), rows);
}

void SessionDecoder::DecodeRecord(uint32_t ring, RingState& state, const stepscope_record& header, RingBytes record,
                                  SessionRows& rows) {
  switch (header.kind) {
    case STEPSCOPE_RECORD_NAME:
      return DefineName(ring, header, record, rows);
    case STEPSCOPE_RECORD_BEGIN:
      return Begin(state, {header.name, CopyRecord<stepscope_record_time>(record).ticks, 0, false}, rows);
    case STEPSCOPE_RECORD_BEGIN_N: {
      const auto begin = CopyRecord<stepscope_record_number>(record);
      return Begin(state, {header.name, begin.ticks, begin.number, true}, rows);
    }
    case STEPSCOPE_RECORD_END:
      return End(ring, state, header.name, CopyRecord<stepscope_record_time>(record).ticks, rows);
    case STEPSCOPE_RECORD_TOKEN_BEGIN: {
      const auto token = CopyRecord<stepscope_record_token>(record);
      const bool has_number = token.has_number != 0;
      Saw(state, token.ticks);
      return BeginToken(ring, token.token, {{header.name, token.ticks, has_number ? token.number : 0, has_number}, state.tid},
                        rows);
    }
    case STEPSCOPE_RECORD_TOKEN_END: {
      const auto token = CopyRecord<stepscope_record_token>(record);
      Saw(state, token.ticks);
      return EndToken(ring, token.token, token.ticks, rows);
    }
    case STEPSCOPE_RECORD_MARK: {
      const auto mark = CopyRecord<stepscope_record_number>(record);
      Saw(state, mark.ticks);
      const bool has_number = mark.number != STEPSCOPE_NO_NUMBER;
      return Mark(ring, state, {header.name, mark.ticks, has_number ? mark.number : 0, has_number}, rows);
    }
    case STEPSCOPE_RECORD_COUNTER: {
      const auto counter = CopyRecord<stepscope_record_number>(record);
      Saw(state, counter.ticks);
      return rows.AddCounter(counter.ticks, names_.Find(ring, header.name).text, counter.number);
    }
    case STEPSCOPE_RECORD_INFO: {
      const auto info = CopyRecord<stepscope_record_info>(record);
      if (info.bytes > record.size() - sizeof(info)) return Lose(state, LossReason::kMalformed, header.size, rows);
      rows.facts.emplace_back(*names_.Find(ring, header.name).text, ValidUtf8(TextOf(record, sizeof(info), info.bytes)));
      return Saw(state, info.ticks);
    }
    case STEPSCOPE_RECORD_WINDOW: {
      const auto window = CopyRecord<stepscope_record_number>(record);
      Saw(state, window.ticks);
      if (window.number == 0) return EndToken(ring, kWindowToken, window.ticks, rows);
      return BeginToken(ring, kWindowToken, {{header.name, window.ticks, 0, false}, state.tid}, rows);
    }
    case STEPSCOPE_RECORD_LOST: {
      const auto lost = CopyRecord<stepscope_record_lost>(record);
      Saw(state, lost.last_ticks);
      return TellRingLoss(ring, lost.total, state.lost_bytes + lost.bytes, lost.first_ticks, lost.last_ticks, rows);
    }
    case STEPSCOPE_RECORD_THREAD: {
      const auto thread = CopyRecord<stepscope_record_thread>(record);
      Saw(state, thread.ticks);
      const bool known = tids_.contains(thread.tid) || (tids_.size() < kMaxThreads && tids_.insert(thread.tid).second);
      state.tid = known ? thread.tid : 0;
      if (!known) return Lose(state, LossReason::kRateLimited, 0, rows);
      return rows.NoteThread(thread.tid, CommOf(thread.comm));
    }
    case STEPSCOPE_RECORD_ANCHOR:
      Saw(state, CopyRecord<stepscope_record_anchor>(record).ticks);
      return Anchor(CopyRecord<stepscope_record_anchor>(record), rows);
    case STEPSCOPE_RECORD_GIL: {
      const auto range = CopyRecord<stepscope_record_range>(record);
      state.gil_begin = range.begin;
      state.gil_end = range.end;
      return rows.NoteGil({range.begin, range.end});
    }
    default:  // PAD, and kinds of a newer agent
      return;
  }
}

void SessionDecoder::DefineName(uint32_t ring, const stepscope_record& header, RingBytes record, SessionRows& rows) {
  const auto head = CopyRecord<stepscope_record_name>(record);
  const RingState& state = rings_[ring];
  if (head.bytes > record.size() - sizeof(head) || head.bytes > STEPSCOPE_NAME_MAX_BYTES || header.name == 0) {
    return Lose(state, LossReason::kMalformed, header.size, rows);
  }
  const RingName name{static_cast<uint8_t>(std::min<uint16_t>(head.domain, 255)), static_cast<uint8_t>(head.flags),
                      ValidUtf8(TextOf(record, sizeof(head), head.bytes))};
  if (!names_.Define(ring, header.name, name)) return Lose(state, LossReason::kNameCap, header.size, rows);
  rows.names.push_back({identity_->session, ring, header.name, EncodeRingName(name)});
}

void SessionDecoder::Begin(RingState& state, const OpenSpan& span, SessionRows& rows) {
  Saw(state, span.ticks);
  if (state.open.size() >= STEPSCOPE_OPEN_SPANS_MAX) return Lose(state, LossReason::kRateLimited, 0, rows);
  state.open.push_back(span);
}

/// Emits the spans above index `keep`, innermost first, and drops them. `flags` goes to all but the one at `keep` itself
/// unless it says they were cut.
void SessionDecoder::CloseOpen(uint32_t ring, RingState& state, size_t keep, uint64_t ticks, int64_t flags,
                               SessionRows& rows) const {
  while (state.open.size() > keep) {
    const OpenSpan span = state.open.back();
    state.open.pop_back();
    const size_t depth = state.open.size();
    const NameEntry name = names_.Find(ring, span.name);
    const int64_t own_flags = depth == keep && (flags & kSpanUnbalanced) != 0 ? 0 : flags;
    rows.Add(SpanRow{state.tid, span.ticks, ticks, name.text, name.domain, span.number, span.has_number,
                     static_cast<int64_t>(depth), 0, own_flags | CutFlag(name)});
  }
}

void SessionDecoder::End(uint32_t ring, RingState& state, uint32_t name, uint64_t ticks, SessionRows& rows) {
  Saw(state, ticks);
  size_t index = state.open.size();
  while (index > 0 && name != 0 && state.open[index - 1].name != name) --index;
  if (index == 0) return Lose(state, LossReason::kUnmatchedEnd, 0, rows);
  CloseOpen(ring, state, index - 1, ticks, kSpanUnbalanced, rows);
}

void SessionDecoder::Mark(uint32_t ring, const RingState& state, const OpenSpan& span, SessionRows& rows) const {
  const NameEntry name = names_.Find(ring, span.name);
  const int64_t flags = kSpanInstant | CutFlag(name);
  rows.Add(SpanRow{state.tid, span.ticks, span.ticks, name.text, static_cast<int64_t>(SpanDomain::kMark), span.number,
                   span.has_number, static_cast<int64_t>(state.open.size()), 0, flags});
}

void SessionDecoder::EmitToken(uint32_t ring, uint64_t token, const OpenToken& open, uint64_t end_ticks, int64_t flags,
                               SessionRows& rows) const {
  NameEntry name = names_.Find(ring, open.span.name);
  int64_t domain = name.domain;
  if (token == kWindowToken) {
    domain = static_cast<int64_t>(SpanDomain::kWindow);
    if (open.span.name == 0) name.text = names_.window();
  }
  rows.Add(SpanRow{open.tid, open.span.ticks, end_ticks, name.text, domain, open.span.number, open.span.has_number, 0, token,
                   flags | kSpanToken | CutFlag(name)});
}

void SessionDecoder::BeginToken(uint32_t ring, uint64_t token, const OpenToken& open, SessionRows& rows) {
  RingState& state = rings_[ring];
  if (token_rings_.contains(token)) {  // start() in an open window changes nothing
    if (token != kWindowToken) Lose(state, LossReason::kMalformed, sizeof(stepscope_record_token), rows);
    return;
  }
  const auto early = token_end_rings_.find(token);
  if (early != token_end_rings_.end()) {
    const uint32_t end_ring = early->second;
    const uint64_t end_ticks = rings_[end_ring].token_ends.extract(token).mapped();
    token_end_rings_.erase(early);
    touched_.insert(end_ring);
    if (token != kWindowToken || end_ticks >= open.span.ticks) return EmitToken(ring, token, open, end_ticks, 0, rows);
    Lose(rings_[end_ring], LossReason::kUnmatchedEnd, 0, rows);
  }
  if (token_rings_.size() >= kMaxTokens) return Lose(state, LossReason::kRateLimited, 0, rows);
  token_rings_[token] = ring;
  state.tokens[token] = open;
}

void SessionDecoder::EndToken(uint32_t ring, uint64_t token, uint64_t ticks, SessionRows& rows) {
  RingState& state = rings_[ring];
  const auto begun = token_rings_.find(token);
  if (begun != token_rings_.end()) {
    const uint32_t begin_ring = begun->second;
    const OpenToken open = rings_[begin_ring].tokens.extract(token).mapped();
    token_rings_.erase(begun);
    touched_.insert(begin_ring);
    return EmitToken(begin_ring, token, open, ticks, 0, rows);
  }
  if (token_end_rings_.contains(token)) return Lose(state, LossReason::kUnmatchedEnd, 0, rows);
  if (token_end_rings_.size() >= kMaxTokens) return Lose(state, LossReason::kRateLimited, 0, rows);
  token_end_rings_[token] = ring;
  state.token_ends[token] = ticks;
}

void SessionDecoder::Anchor(const stepscope_record_anchor& record, SessionRows& rows) {
  rows.Add(AnchorRow{record.ticks, record.ticks_width, static_cast<int64_t>(record.monotonic_ns),
                     static_cast<int64_t>(record.realtime_ns)});
  const double wait_ticks = kTokenEndWaitNs / identity_->ns_per_tick;
  if (static_cast<double>(record.ticks) > wait_ticks) ExpireTokenEnds(record.ticks - static_cast<uint64_t>(wait_ticks), rows);
}

void SessionDecoder::ExpireTokenEnds(uint64_t before_ticks, SessionRows& rows) {
  for (auto end = token_end_rings_.begin(); end != token_end_rings_.end();) {
    RingState& state = rings_[end->second];
    const auto waiting = state.token_ends.find(end->first);
    if (waiting->second >= before_ticks) {
      ++end;
      continue;
    }
    state.token_ends.erase(waiting);
    touched_.insert(end->second);
    Lose(state, LossReason::kUnmatchedEnd, 0, rows);
    end = token_end_rings_.erase(end);
  }
}

void SessionDecoder::StartGeneration(uint32_t ring, int32_t tid, uint64_t opened_ticks, SessionRows& rows) {
  RingState& state = rings_[ring];
  touched_.insert(ring);
  CloseOpen(ring, state, 0, state.last_ticks, kSpanCut, rows);
  state.tid = tid;
  state.lost_records = 0;
  state.lost_bytes = 0;
  Saw(state, opened_ticks);
}

void SessionDecoder::TellRingLoss(uint32_t ring, uint64_t records, uint64_t bytes, uint64_t first_ticks, uint64_t last_ticks,
                                  SessionRows& rows) {
  RingState& state = rings_[ring];
  if (records <= state.lost_records) return;
  touched_.insert(ring);
  rows.Add(LossRow{state.tid, first_ticks, last_ticks, LossStage::kAgent, LossReason::kRingFull,
                   static_cast<int64_t>(records - state.lost_records),
                   static_cast<int64_t>(bytes - std::min(bytes, state.lost_bytes))});
  state.lost_records = records;
  state.lost_bytes = std::max(bytes, state.lost_bytes);
}

void SessionDecoder::TellNoRingLoss(uint64_t records, uint64_t first_ticks, uint64_t last_ticks, SessionRows& rows) {
  RingState& state = rings_[0];
  if (records <= state.no_ring_lost) return;
  touched_.insert(0);
  rows.Add(LossRow{0, first_ticks, last_ticks, LossStage::kAgent, LossReason::kNoRing,
                   static_cast<int64_t>(records - state.no_ring_lost), -1});
  state.no_ring_lost = records;
}

void SessionDecoder::TellSkipped(uint32_t ring, LossStage stage, LossReason reason, uint64_t bytes, SessionRows& rows) {
  const RingState& state = rings_[ring];
  touched_.insert(ring);
  const uint64_t ticks = state.last_ticks != 0 ? state.last_ticks : last_ticks_;
  rows.Add(LossRow{state.tid, ticks, ticks, stage, reason, -1, static_cast<int64_t>(bytes)});
}

void SessionDecoder::Lose(const RingState& state, LossReason reason, int64_t bytes, SessionRows& rows) const {
  if (reason == LossReason::kMalformed) ++rows.malformed;
  const uint64_t ticks = state.last_ticks != 0 ? state.last_ticks : last_ticks_;
  rows.Add(LossRow{state.tid, ticks, ticks, LossStage::kIngest, reason, 1, bytes});
}

void SessionDecoder::Finish(SessionRows& rows) {
  for (auto& [ring, state] : rings_) {
    touched_.insert(ring);
    CloseOpen(ring, state, 0, last_ticks_, kSpanCut, rows);
    for (const auto& [token, open] : state.tokens) EmitToken(ring, token, open, last_ticks_, kSpanCut, rows);
    for (size_t left = state.token_ends.size(); left > 0; --left) Lose(state, LossReason::kUnmatchedEnd, 0, rows);
    state.tokens.clear();
    state.token_ends.clear();
  }
  token_rings_.clear();
  token_end_rings_.clear();
}

}  // namespace stepscope
