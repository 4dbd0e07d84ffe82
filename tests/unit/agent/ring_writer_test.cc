// SPDX-License-Identifier: Apache-2.0
#include "agent/core/ring_writer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "ring_reader.h"

namespace stepscope::agent {
namespace {

// A ring in plain memory whose reader takes bytes when told to.
class RingWriterTest : public testing::Test {
 protected:
  void Open(uint64_t bytes) {
    data_.assign(bytes, 0xEE);
    descriptor_ = {};
    descriptor_.data_bytes = bytes;
    writer_.Open(&descriptor_, data_.data(), &names_, {1, 77, "main"}, 100);
  }

  stepscope_name Name(const std::string& text) { return {names_.Intern(text.data(), text.size(), 0), 0, 0}; }
  stepscope_name Name(const std::string& text, int64_t number) { return {Name(text).id, 1, number}; }

  // Reads up to head and frees the space, as acknowledgements do.
  void Drain() {
    std::string bytes;
    for (uint64_t at = descriptor_.tail; at < descriptor_.head; ++at) bytes += static_cast<char>(data_[at % data_.size()]);
    ReadRecords(bytes, &contents_);
    descriptor_.tail = descriptor_.head;
  }

  NameTable names_;
  std::vector<uint8_t> data_;
  stepscope_ring_descriptor descriptor_;
  RingWriter writer_;
  RingContents contents_;
};

TEST_F(RingWriterTest, BeginsWithTheThreadAndNamesBeforeTheirUse) {
  Open(4096);
  writer_.Begin(Name("step", 12), 200);
  writer_.Begin(Name("load"), 210);
  writer_.End(220);
  writer_.End(230);
  Drain();
  EXPECT_EQ(contents_.tid, 77);
  ASSERT_EQ(contents_.spans.size(), 2u);
  EXPECT_EQ(contents_.spans[0].name, "step");
  EXPECT_EQ(contents_.spans[0].number, 12);
  EXPECT_EQ(contents_.spans[1].name, "load");
  EXPECT_TRUE(contents_.open.empty());
}

TEST_F(RingWriterTest, DropsNewestWholeSpansWhenFullAndTellsTheLossOnce) {
  Open(4096);
  uint64_t produced = 0;
  for (int i = 0; i < 1000; ++i) {
    writer_.Begin(Name("step", i), 1000 + i);
    writer_.End(1000 + i);
    produced += 2;
  }
  EXPECT_GT(descriptor_.lost_records, 0u);
  Drain();
  EXPECT_TRUE(contents_.open.empty()) << "no begin without its end";
  writer_.Begin(Name("after"), 5000);
  writer_.End(5001);
  produced += 2;
  Drain();
  EXPECT_EQ(contents_.user_records + contents_.lost_told, produced);
  EXPECT_EQ(contents_.lost_told, descriptor_.lost_records);
  EXPECT_EQ(descriptor_.lost_reported, descriptor_.lost_records);
}

TEST_F(RingWriterTest, KeepsRoomForTheEndsOfOpenSpans) {
  Open(4096);
  for (int i = 0; i < 200; ++i) writer_.Begin(Name("deep", i), 1000 + i);
  for (int i = 0; i < 100; ++i) writer_.Number(STEPSCOPE_RECORD_MARK, Name("filler").id, i, 2000);
  for (int i = 0; i < 200; ++i) writer_.End(3000 + i);
  Drain();
  EXPECT_GT(contents_.spans.size(), 50u);
  EXPECT_TRUE(contents_.open.empty());
  EXPECT_EQ(contents_.user_records + descriptor_.lost_records, 200u + 100u + 200u);
}

TEST_F(RingWriterTest, CountsSpansDeeperThanTheLimit) {
  Open(64 << 10);
  for (int i = 0; i < 300; ++i) writer_.Begin(Name("deep"), 1000);
  for (int i = 0; i < 300; ++i) writer_.End(2000);
  Drain();
  EXPECT_EQ(contents_.spans.size(), STEPSCOPE_OPEN_SPANS_MAX);
  EXPECT_TRUE(contents_.open.empty());
  EXPECT_EQ(contents_.lost_told + descriptor_.lost_records - descriptor_.lost_reported, 2u * (300 - STEPSCOPE_OPEN_SPANS_MAX));
}

TEST_F(RingWriterTest, EndByNameClosesInnerSpansAndUnknownOnesChangeNothing) {
  Open(4096);
  writer_.Begin(Name("outer"), 1);
  writer_.Begin(Name("middle"), 200);
  writer_.Begin(Name("inner"), 300);
  writer_.EndNamed(Name("never begun").id, 400);
  writer_.EndNamed(Name("middle").id, 500);
  writer_.End(600);
  writer_.End(700);
  Drain();
  EXPECT_TRUE(contents_.open.empty());
  EXPECT_EQ(contents_.user_records, 5u);
  EXPECT_EQ(contents_.unmatched_ends, 0u);
  EXPECT_EQ(writer_.ignored(), 2u);
}

TEST_F(RingWriterTest, RefusesAnInterruptedCallOnTheSameThread) {
  Open(4096);
  ASSERT_TRUE(writer_.Enter());
  EXPECT_FALSE(writer_.Enter());
  writer_.Leave();
  EXPECT_TRUE(writer_.Enter());
}

TEST_F(RingWriterTest, NameOfFourKilobytesNeverFitsTheSmallestRingAndIsCounted) {
  Open(4096);
  writer_.Begin(Name(std::string(4096, 'x')), 1);
  writer_.End(2);
  EXPECT_EQ(descriptor_.lost_records, 2u);
}

// tests/golden/ring_*.hex: what the independent reader of docs/formats/ring.md is tested with.
class RingGolden : public RingWriterTest {
 protected:
  void Take() {
    for (uint64_t at = descriptor_.tail; at < descriptor_.head; ++at) {
      static constexpr char kDigits[] = "0123456789abcdef";
      if (count_ != 0 && count_ % 32 == 0) hex_ += '\n';
      hex_ += kDigits[data_[at % data_.size()] >> 4];
      hex_ += kDigits[data_[at % data_.size()] & 15];
      ++count_;
    }
    descriptor_.tail = descriptor_.head;
  }
  static std::string File(const std::string& name) {
    std::ifstream file(STEPSCOPE_GOLDEN_FOLDER "/" + name + ".hex");
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  std::string hex_;
  size_t count_ = 0;
};

TEST_F(RingGolden, ExampleHasEveryKindAThreadWrites) {
  Open(4096);
  const stepscope_name step{names_.Intern("step", 4, STEPSCOPE_DOMAIN_STEP), 1, 12};
  writer_.Begin(step, 1000);
  writer_.Begin(Name("load"), 1010);
  writer_.End(1020);
  writer_.EndNamed(step.id, 1030);
  writer_.TokenBegin(7, Name("request", 3), 1040);
  writer_.TokenEnd(7, 1050);
  writer_.Number(STEPSCOPE_RECORD_MARK, Name("load").id, 0, 1060);
  writer_.Number(STEPSCOPE_RECORD_COUNTER, Name("loss").id, 0x3FE0000000000000, 1070);  // 0.5
  writer_.Info(Name("lr").id, "3e-4", 4, 1080);
  writer_.Number(STEPSCOPE_RECORD_WINDOW, 0, 1, 1090);
  writer_.Range(0x7000, 0x7010, 1100);
  writer_.Anchor({{}, 1110, 4, 5000000000, 1700000000000000000});
  Take();
  EXPECT_EQ(hex_ + "\n", File("ring_example"));
}

TEST_F(RingGolden, LossyRingWrapsPadsAndTellsItsLoss) {
  Open(256);
  for (int i = 0; i < 20; ++i) {
    writer_.Begin(Name("step", i), 1000 + static_cast<uint64_t>(i) * 10);
    writer_.End(1005 + static_cast<uint64_t>(i) * 10);
    if (i % 8 == 7) Take();
  }
  Take();
  EXPECT_EQ(hex_ + "\n", File("ring_lossy"));
}

// Found by the test below under another compiler's random order: the PAD between two ENDs used up the eight bytes kept for it,
// and the END behind it was refused because they were asked for once more.
TEST_F(RingWriterTest, AnEndAtTheEndOfALapOfAFullRingIsNotLost) {
  for (int filler = 0; filler < 64; ++filler) {
    Open(4096);
    contents_ = {};
    for (int i = 0; i < filler; ++i) writer_.Number(STEPSCOPE_RECORD_WINDOW, 0, 1, 1000);
    Drain();
    uint64_t begun = 0;
    while (descriptor_.lost_records == 0) {
      writer_.Begin(Name("a"), 1000);
      ++begun;
      writer_.Number(STEPSCOPE_RECORD_WINDOW, 0, 1, 1000);
    }
    for (uint64_t i = 0; i < begun; ++i) writer_.End(2000);
    Drain();
    EXPECT_TRUE(contents_.open.empty()) << "filler " << filler;
  }
}

// Against a brute-force model: any order of calls, any moment of draining, any ring size.
TEST_F(RingWriterTest, ProducedIsDecodedPlusLostForRandomCalls) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    Open(4096u << random() % 3);
    contents_ = {};
    uint64_t produced = 0;
    uint64_t depth = 0;
    for (int call = 0; call < 2000; ++call) {
      const uint64_t ticks = 1000 + static_cast<uint64_t>(call);
      const std::string text = "name " + std::string(random() % 60, 'n') + static_cast<char>('a' + random() % 26);
      switch (random() % 8) {
        case 0:
          writer_.Number(STEPSCOPE_RECORD_COUNTER, Name(text).id, 1, ticks);
          ++produced;
          break;
        case 1:
          writer_.TokenEnd(1 + random() % 100, ticks);
          ++produced;
          break;
        case 2:
          writer_.Info(Name(text).id, text.data(), static_cast<uint32_t>(text.size()), ticks);
          ++produced;
          break;
        case 3:
        case 4:
          writer_.Begin(random() % 2 != 0 ? Name(text) : Name(text, call), ticks);
          ++produced;
          ++depth;
          break;
        case 5:
        case 6:
          if (depth != 0) {
            writer_.End(ticks);
            ++produced;
            --depth;
          }
          break;
        default:
          if (random() % 20 == 0) Drain();
      }
      ASSERT_LE(descriptor_.head - descriptor_.tail, descriptor_.data_bytes);
    }
    while (depth != 0) {
      writer_.End(9000);
      ++produced;
      --depth;
    }
    Drain();
    ASSERT_TRUE(writer_.TellLoss());
    Drain();
    ASSERT_TRUE(contents_.open.empty());
    ASSERT_EQ(contents_.unmatched_ends, 0u);
    ASSERT_EQ(contents_.user_records + contents_.lost_told, produced) << "round " << round;
  }
}

}  // namespace
}  // namespace stepscope::agent
