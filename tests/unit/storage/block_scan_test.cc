// SPDX-License-Identifier: Apache-2.0
// Blocks that the disk does not give back as they were written: they are named, and everything else is read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "storage/store.h"
#include "tests/unit/storage/temp_dir.h"

namespace stepscope {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr RunId kRun{7};
constexpr uint32_t kBlocks = 20;

class BlockScanTest : public testing::Test {
 protected:
  void Open() {
    store_.reset();
    auto opened = Store::Open({.path = dir_.path()});
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  /// Blocks 0 … kBlocks - 1, three to a second, the last few in the long stripe, all in files of the disk.
  void Fill(uint32_t in_stripe = 2) {
    Open();
    std::mt19937_64 random(5);
    Seal seal;
    for (uint32_t n = 0; n < kBlocks; ++n) {
      texts_.emplace_back(8000, '\0');
      for (char& byte : texts_.back()) byte = static_cast<char>(random());
      seal.blocks.push_back({{kRun, TableId::kSpan, n + in_stripe < kBlocks ? 100 + n / 3 : kLongSlot, 0, n}, texts_.back()});
    }
    ASSERT_TRUE(store_->Commit(seal).ok());
    Open();  // the log becomes files
    store_.reset();
  }
  /// Turns one byte of every file whose name ends in `suffix` at the place that `where` finds in its bytes.
  int Flip(const std::string& suffix, const std::function<size_t(const std::string&)>& where) {
    int flipped = 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      if (!entry.path().string().ends_with(suffix)) continue;
      std::ifstream in(entry.path(), std::ios::binary);
      std::string bytes{std::istreambuf_iterator<char>(in), {}};
      const size_t at = where(bytes);
      if (at >= bytes.size()) continue;
      bytes[at] = static_cast<char>(bytes[at] ^ 0x40);
      std::ofstream(entry.path(), std::ios::binary) << bytes;
      ++flipped;
    }
    return flipped;
  }
  void DamageBlock(uint32_t n) {
    ASSERT_EQ(Flip(".blob", [&](const std::string& bytes) { return bytes.find(texts_[n]); }), 1);
  }
  void Scan(NodeTime begin, NodeTime end) {
    read_.clear();
    damaged_.clear();
    const absl::Status status = store_->ForEachBlock(kRun, TableId::kSpan, begin, end, [&](const BlockKey& key, auto bytes) {
      (bytes.empty() ? damaged_ : read_).push_back(key.seq);
      EXPECT_TRUE(bytes.empty() || bytes == texts_[key.seq]);
      return true;
    });
    EXPECT_TRUE(status.ok()) << status;
  }
  static NodeTime Second(int64_t s) { return {s * kNsPerSecond}; }

  TempDir dir_;
  std::vector<std::string> texts_;
  std::unique_ptr<Store> store_;
  std::vector<uint32_t> read_, damaged_;
};

TEST_F(BlockScanTest, DamagedBlocksAreNamedAndAllOthersAreRead) {
  Fill();
  for (const uint32_t n : {0u, 4u, 5u, 13u, kBlocks - 1}) DamageBlock(n);
  Open();
  Scan(Second(0), Second(1000));
  EXPECT_THAT(damaged_, ElementsAre(0, 4, 5, 13, kBlocks - 1));
  EXPECT_EQ(read_.size(), kBlocks - 5);
}

TEST_F(BlockScanTest, DamageOutsideTheRangeAskedForIsNotNamed) {
  Fill();
  DamageBlock(16);  // second 105
  Open();
  Scan(Second(90), Second(91));  // and the ten seconds behind it
  EXPECT_THAT(damaged_, IsEmpty());
  EXPECT_THAT(read_, ElementsAre(0, 1, 2, 3, 4, 5, kBlocks - 2, kBlocks - 1));
}

TEST_F(BlockScanTest, AReaderMayStopAtTheDamage) {
  Fill();
  DamageBlock(2);
  Open();
  int visits = 0;
  EXPECT_TRUE(
      store_->ForEachBlock(kRun, TableId::kSpan, Second(0), Second(1000), [&](auto&, auto) { return ++visits < 3; }).ok());
  EXPECT_EQ(visits, 3);
}

TEST_F(BlockScanTest, ADamagedIndexHidesItsBlocksButNotLaterOnes) {
  Fill(/*in_stripe=*/0);
  const std::string first_key("\0\0\0\x07\0\x03", 6);
  ASSERT_EQ(Flip(".sst", [&](const std::string& bytes) { return bytes.find(first_key); }), 1);
  auto opened = Store::Open({.path = dir_.path()});
  ASSERT_TRUE(opened.ok()) << opened.status();
  store_ = *std::move(opened);
  texts_.emplace_back("later");
  Seal seal;
  seal.blocks = {{{kRun, TableId::kSpan, 500, 0, kBlocks}, "later"}};
  ASSERT_TRUE(store_->Commit(seal).ok());
  Scan(Second(0), Second(1000));
  EXPECT_FALSE(damaged_.empty());
  EXPECT_THAT(read_, testing::Contains(kBlocks));
}

}  // namespace
}  // namespace stepscope
