// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/ring_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/valid_utf8.h"
#include "tests/unit/ingest/ring_bytes.h"

namespace stepscope {
namespace {

using ::stepscope::testing::RingBytesBuilder;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

/// A row with its names looked up, so expectations read as what a user would see.
struct SeenSpan {
  std::string name;
  int64_t begin, end, depth, flags;
  int64_t tid;
  friend bool operator==(const SeenSpan&, const SeenSpan&) = default;
  friend void PrintTo(const SeenSpan& s, std::ostream* os) {
    *os << s.name << " [" << s.begin << "," << s.end << ") depth " << s.depth << " flags " << s.flags << " tid " << s.tid;
  }
};
struct SeenLoss {
  LossReason reason;
  int64_t count, bytes;
  friend bool operator==(const SeenLoss&, const SeenLoss&) = default;
  friend void PrintTo(const SeenLoss& l, std::ostream* os) {
    *os << "reason " << static_cast<int>(l.reason) << " count " << l.count << " bytes " << l.bytes;
  }
};

class RingDecoderTest : public ::testing::Test {
 protected:
  RingDecoderTest() {
    identity_.session = "0123456789abcdef";
    identity_.run = {3};
    identity_.clock = {9};
    identity_.process = {{4000}, 777};
    identity_.ns_per_tick = 1.0;
  }
  void Decode(uint32_t ring, const RingBytesBuilder& bytes) {
    SessionRows rows(&identity_);
    decoder_.Decode(ring, bytes.bytes(), rows);
    Collect(rows);
  }
  void Finish() {
    SessionRows rows(&identity_);
    decoder_.Finish(rows);
    Collect(rows);
  }
  void Collect(SessionRows& rows) {
    records_ += rows.records;
    facts_.insert(facts_.end(), rows.facts.begin(), rows.facts.end());
    anchors_.insert(anchors_.end(), rows.anchors.begin(), rows.anchors.end());
    const std::set<uint32_t> touched = decoder_.TakeTouched();
    touched_.insert(touched.begin(), touched.end());
    Delivery delivery = rows.Take();
    std::ranges::move(delivery.notes, std::back_inserter(notes_));
    std::ranges::move(delivery.session_names, std::back_inserter(names_));
    for (const Batch& batch : delivery.batches) Collect(batch);
  }
  void Collect(const Batch& batch) {
    EXPECT_EQ(batch.clock, identity_.clock);
    EXPECT_FALSE(batch.interned);
    const auto cell = [&](size_t column, size_t row) { return batch.columns[column][row]; };
    for (size_t r = 0; r < batch.rows(); ++r) {
      const EntityKey& lane = batch.entities.at(batch.lane[r]);
      if (batch.table == TableId::kSpan) {
        using namespace span_column;
        spans_.push_back({batch.names.at(static_cast<size_t>(cell(kName, r))), cell(kStart, r), cell(kDur, r), cell(kDepth, r),
                          cell(kFlags, r), lane.c});
        domains_.push_back(cell(kDomain, r));
        numbers_.emplace_back(cell(kHasNumber, r), cell(kNumber, r));
      } else if (batch.table == TableId::kLoss) {
        using namespace loss_column;
        losses_.push_back({static_cast<LossReason>(cell(kReason, r)), cell(kCount, r), cell(kBytes, r)});
      } else if (batch.table == TableId::kCounter) {
        using namespace counter_column;
        counters_.emplace_back(lane.text, std::bit_cast<double>(cell(kValue, r)));
      } else if (batch.table == TableId::kClockSample) {
        using namespace clock_column;
        samples_.push_back(cell(kWall, r));
      }
    }
  }

  SessionIdentity identity_;
  SessionDecoder decoder_{&identity_};
  std::vector<SeenSpan> spans_;
  std::vector<int64_t> domains_;
  std::vector<std::pair<int64_t, int64_t>> numbers_;
  std::vector<SeenLoss> losses_;
  std::vector<std::pair<std::string, double>> counters_;
  std::vector<int64_t> samples_;
  std::vector<AnchorRow> anchors_;
  std::vector<std::pair<std::string, std::string>> facts_;
  std::vector<EntityNote> notes_;
  std::vector<SessionNameRow> names_;
  std::set<uint32_t> touched_;
  uint64_t records_ = 0;
};

TEST_F(RingDecoderTest, NestedSpansComeOutWhenTheyEnd) {
  Decode(1, RingBytesBuilder()
                .Thread(4001, "python", 10)
                .Name(2, "step", 1)
                .Name(3, "forward")
                .BeginNumber(2, 100, 12)
                .Begin(3, 110)
                .End(150)
                .End(200));
  EXPECT_THAT(spans_, ElementsAre(SeenSpan{"forward", 110, 150, 1, 0, 4001}, SeenSpan{"step", 100, 200, 0, 0, 4001}));
  EXPECT_THAT(domains_, ElementsAre(0, 1));
  EXPECT_THAT(numbers_, ElementsAre(std::pair(0, 0), std::pair(1, 12)));
  EXPECT_THAT(losses_, IsEmpty());
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_EQ(notes_[0].name, "python");
  EXPECT_EQ(notes_[0].key, (EntityKey{EntityKind::kThread, 4000, 777, 4001, {}}));
  EXPECT_EQ(names_.size(), 2u);
  EXPECT_EQ(records_, 7u);
}

TEST_F(RingDecoderTest, TheInterpretersLockIsANoteOfTheProcess) {
  Decode(1, RingBytesBuilder().Add(STEPSCOPE_RECORD_GIL, 0, stepscope_record_range{{}, 10, 0x7000, 0x70D0}));
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_EQ(notes_[0].key, (EntityKey{EntityKind::kProcess, 4000, 777, 0, {}}));
  EXPECT_EQ(notes_[0].gil, (AddressRange{0x7000, 0x70D0}));
}

TEST_F(RingDecoderTest, ASpanMayBeginInOnePieceAndEndInAnother) {
  Decode(1, RingBytesBuilder().Thread(1, "t", 1).Name(2, "a").Begin(2, 5));
  EXPECT_THAT(spans_, IsEmpty());
  Decode(1, RingBytesBuilder().End(9));
  EXPECT_THAT(spans_, ElementsAre(SeenSpan{"a", 5, 9, 0, 0, 1}));
}

TEST_F(RingDecoderTest, ANamedEndClosesInnerSpansFlagged) {
  Decode(1, RingBytesBuilder().Thread(1, "t", 1).Name(2, "a").Name(3, "b").Name(4, "c").Begin(2, 5).Begin(3, 6).Begin(4, 7).End(
                9, 3));
  EXPECT_THAT(spans_, ElementsAre(SeenSpan{"c", 7, 9, 2, kSpanUnbalanced, 1}, SeenSpan{"b", 6, 9, 1, 0, 1}));
  Decode(1, RingBytesBuilder().End(10, 4).End(11).End(12));
  EXPECT_EQ(spans_.back(), (SeenSpan{"a", 5, 11, 0, 0, 1}));
  EXPECT_THAT(losses_, ElementsAre(SeenLoss{LossReason::kUnmatchedEnd, 1, 0}, SeenLoss{LossReason::kUnmatchedEnd, 1, 0}));
}

TEST_F(RingDecoderTest, TokensPairAcrossRingsInEitherOrder) {
  Decode(1, RingBytesBuilder().Thread(11, "a", 1).Name(2, "load").TokenBegin(70, 2, 5));
  Decode(2, RingBytesBuilder().Thread(22, "b", 1).TokenEnd(70, 9).TokenEnd(71, 19));
  EXPECT_THAT(touched_, UnorderedElementsAre(1, 2));
  touched_.clear();
  Decode(1, RingBytesBuilder().TokenBegin(71, 2, 15));
  EXPECT_THAT(spans_, ElementsAre(SeenSpan{"load", 5, 9, 0, kSpanToken, 11}, SeenSpan{"load", 15, 19, 0, kSpanToken, 11}));
  EXPECT_THAT(touched_, UnorderedElementsAre(1, 2)) << "the state that held the early end must be stored with the row";
  EXPECT_TRUE(decoder_.ring(2).token_ends.empty());
  EXPECT_TRUE(decoder_.ring(1).tokens.empty());
  EXPECT_THAT(losses_, IsEmpty());
}

TEST_F(RingDecoderTest, AnEndWithoutItsBeginIsCountedAfterTenSeconds) {
  Decode(1, RingBytesBuilder().Thread(1, "t", 1).TokenEnd(70, 1'000'000'000));
  Decode(0, RingBytesBuilder().Anchor(10'900'000'000, 10, 10'900'000'000, 1));
  EXPECT_THAT(losses_, IsEmpty());
  Decode(0, RingBytesBuilder().Anchor(11'100'000'000, 10, 11'100'000'000, 2));
  EXPECT_THAT(losses_, ElementsAre(SeenLoss{LossReason::kUnmatchedEnd, 1, 0}));
  EXPECT_THAT(samples_, ElementsAre(1, 2));
  EXPECT_EQ(anchors_.size(), 2u);
}

TEST_F(RingDecoderTest, MarksCountersFactsAndWindows) {
  Decode(1, RingBytesBuilder()
                .Thread(1, "t", 1)
                .Name(2, "epoch")
                .Name(3, "loss")
                .Name(4, "lr")
                .Number(STEPSCOPE_RECORD_MARK, 2, 5, 7)
                .Counter(3, 6, 0.25)
                .Info(4, 7, "3e-4")
                .Number(STEPSCOPE_RECORD_WINDOW, 0, 8, 1)
                .Number(STEPSCOPE_RECORD_WINDOW, 0, 18, 0));
  EXPECT_THAT(spans_, ElementsAre(SeenSpan{"epoch", 5, 5, 0, kSpanInstant, 1}, SeenSpan{"window", 8, 18, 0, kSpanToken, 1}));
  EXPECT_THAT(domains_, ElementsAre(static_cast<int64_t>(SpanDomain::kMark), static_cast<int64_t>(SpanDomain::kWindow)));
  EXPECT_THAT(counters_, ElementsAre(std::pair("loss", 0.25)));
  EXPECT_THAT(facts_, ElementsAre(std::pair("lr", "3e-4")));
}

TEST_F(RingDecoderTest, LossIsToldOnceByRecordsOrByTheDescriptor) {
  Decode(1, RingBytesBuilder().Thread(1, "t", 1).Lost(5, 80, 10, 20, 5).Lost(2, 32, 30, 31, 7));
  SessionRows rows(&identity_);
  decoder_.TellRingLoss(1, 10, 160, 40, 50, rows);
  decoder_.TellRingLoss(1, 10, 160, 40, 50, rows);
  decoder_.TellNoRingLoss(4, 1, 2, rows);
  decoder_.TellNoRingLoss(4, 1, 2, rows);
  Collect(rows);
  EXPECT_THAT(losses_, ElementsAre(SeenLoss{LossReason::kRingFull, 5, 80}, SeenLoss{LossReason::kRingFull, 2, 32},
                                   SeenLoss{LossReason::kRingFull, 3, 48}, SeenLoss{LossReason::kNoRing, 4, -1}));
}

TEST_F(RingDecoderTest, UnknownKindsAndPaddingAreSkippedBySize) {
  Decode(1, RingBytesBuilder()
                .Thread(1, "t", 1)
                .Name(2, "a")
                .Add(STEPSCOPE_RECORD_PAD, 0, stepscope_record_time{{}, ~0ull}, "padding padding")
                .Add(999, 0, stepscope_record_time{{}, ~0ull}, "newer")
                .Begin(2, 5)
                .End(6));
  EXPECT_THAT(spans_, ElementsAre(SeenSpan{"a", 5, 6, 0, 0, 1}));
  EXPECT_THAT(losses_, IsEmpty());
}

TEST_F(RingDecoderTest, BadBytesAreSkippedToTheEndOfThePieceAndCounted) {
  const RingBytesBuilder good = RingBytesBuilder().Thread(1, "t", 1).Name(2, "a").Begin(2, 5);
  Decode(1, RingBytesBuilder().Raw(good.str()).Raw(std::string(24, '\xff')).End(6));
  EXPECT_THAT(losses_, ElementsAre(SeenLoss{LossReason::kMalformed, 1, 24 + 16}));
  Decode(1, RingBytesBuilder().End(7));
  EXPECT_THAT(spans_, ElementsAre(SeenSpan{"a", 5, 7, 0, 0, 1}));
}

TEST_F(RingDecoderTest, AThreadThatEndsCutsItsSpansButNotItsTokens) {
  Decode(
      1,
      RingBytesBuilder().Thread(11, "t", 1).Name(2, "a").Begin(2, 5).TokenBegin(70, 2, 6).Number(STEPSCOPE_RECORD_MARK, 2, 8, 0));
  SessionRows rows(&identity_);
  decoder_.StartGeneration(1, 12, 20, rows);
  Collect(rows);
  EXPECT_EQ(spans_.back(), (SeenSpan{"a", 5, 8, 0, kSpanCut, 11}));
  Decode(1, RingBytesBuilder().Thread(12, "u", 21).TokenEnd(70, 25));
  EXPECT_EQ(spans_.back(), (SeenSpan{"a", 6, 25, 0, kSpanToken, 11}));
}

TEST_F(RingDecoderTest, DeathCutsWhatIsOpenAtTheLastSignOfLife) {
  Decode(1, RingBytesBuilder().Thread(11, "t", 1).Name(2, "a").Begin(2, 5).TokenBegin(70, 2, 6));
  Decode(2, RingBytesBuilder().Thread(12, "u", 1).TokenEnd(99, 300));
  Finish();
  EXPECT_THAT(spans_,
              UnorderedElementsAre(SeenSpan{"a", 5, 300, 0, kSpanCut, 11}, SeenSpan{"a", 6, 300, 0, kSpanCut | kSpanToken, 11}));
  EXPECT_THAT(losses_, ElementsAre(SeenLoss{LossReason::kUnmatchedEnd, 1, 0}));
  Finish();
  EXPECT_EQ(spans_.size(), 2u);
}

TEST_F(RingDecoderTest, StateSurvivesARestartInTheMiddleOfEverything) {
  Decode(
      1,
      RingBytesBuilder().Thread(11, "t", 1).Name(2, "a", 4, 1).BeginNumber(2, 5, -3).TokenBegin(70, 2, 6).Lost(5, 80, 1, 2, 5));
  Decode(2, RingBytesBuilder().Thread(12, "u", 1).TokenEnd(71, 300));
  SessionDecoder second(&identity_);
  for (uint32_t ring : {1u, 2u}) {
    const auto state = ParseRingState(EncodeRingState(decoder_.ring(ring)));
    ASSERT_TRUE(state.ok());
    EXPECT_EQ(*state, decoder_.ring(ring));
    second.Restore(ring, *state);
  }
  for (const SessionNameRow& row : names_) second.RestoreName(row.ring, row.id, *ParseRingName(row.value));
  losses_.clear();
  SessionRows rows(&identity_);
  second.Decode(1, RingBytesBuilder().TokenBegin(71, 2, 200).End(400).Lost(1, 16, 3, 4, 6).bytes(), rows);
  second.Decode(2, RingBytesBuilder().TokenEnd(70, 500).bytes(), rows);
  Collect(rows);
  EXPECT_THAT(spans_, UnorderedElementsAre(SeenSpan{"a", 200, 300, 0, kSpanToken | kSpanNameCut, 11},
                                           SeenSpan{"a", 5, 400, 0, kSpanNameCut, 11},
                                           SeenSpan{"a", 6, 500, 0, kSpanToken | kSpanNameCut, 11}));
  EXPECT_THAT(losses_, ElementsAre(SeenLoss{LossReason::kRingFull, 1, 16}));
}

TEST_F(RingDecoderTest, CutStateIsRefusedNeverMisread) {
  RingState state;
  state.open.resize(3);
  state.tokens[5] = {};
  state.token_ends[6] = 7;
  const std::string bytes = EncodeRingState(state);
  ASSERT_TRUE(ParseRingState(bytes).ok());
  for (size_t length = 0; length < bytes.size(); ++length) EXPECT_FALSE(ParseRingState(bytes.substr(0, length)).ok()) << length;
}

TEST_F(RingDecoderTest, AFloodOfTokensIsBounded) {
  RingBytesBuilder bytes;
  for (uint64_t token = 1; token <= 5000; ++token) bytes.TokenBegin(token, 0, token);
  Decode(1, bytes);
  EXPECT_EQ(decoder_.ring(1).tokens.size(), 4096u);
  EXPECT_EQ(losses_.size(), 5000u - 4096);
}

TEST_F(RingDecoderTest, AnyPiecesOfTheSameBytesGiveTheSameRows) {
  std::mt19937 random(7);
  RingBytesBuilder bytes;
  bytes.Thread(11, "t", 1).Name(2, "a").Name(3, "b");
  int depth = 0;
  for (uint64_t tick = 2; tick < 2000; ++tick) {
    if (depth == 0 || (depth < 20 && random() % 2 == 0)) {
      bytes.Begin(2 + random() % 2, tick);
      ++depth;
    } else {
      bytes.End(tick);
      --depth;
    }
  }
  Decode(1, bytes);
  const std::vector<SeenSpan> whole = spans_;
  spans_.clear();
  SessionDecoder pieces(&identity_);
  for (RingBytes left = bytes.bytes(); !left.empty();) {
    const size_t length = WholeRecords(left, 64 + random() % 512);
    SessionRows rows(&identity_);
    pieces.Decode(1, left.first(length), rows);
    Collect(rows);
    left = left.subspan(length);
  }
  EXPECT_EQ(spans_, whole);
}

TEST(ValidUtf8InRecordsTest, InvalidBytesBecomeReplacementCharacters) {
  EXPECT_EQ(ValidUtf8("plain"), "plain");
  EXPECT_EQ(ValidUtf8("gr\xC3\xBC\xC3\x9F \xF0\x9F\x94\xA5"), "gr\xC3\xBC\xC3\x9F \xF0\x9F\x94\xA5");
  EXPECT_EQ(ValidUtf8("a\xC0\x80z"), "a\xEF\xBF\xBD\xEF\xBF\xBDz");
  EXPECT_EQ(ValidUtf8("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(ValidUtf8("cut\xE2\x82"), "cut\xEF\xBF\xBD\xEF\xBF\xBD");
}

}  // namespace
}  // namespace stepscope
