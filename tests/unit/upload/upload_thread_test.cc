// SPDX-License-Identifier: Apache-2.0
// The uploader over a real store and the real Parquet module, into a folder. S3 itself is tests/e2e/test_upload_s3.py.
#include "daemon/upload/upload_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "stepscope/store/v1/upload.pb.h"
#include "tests/unit/upload/upload_fakes.h"
#include "trace/block.h"

namespace stepscope {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr RunId kRun{7};

class UploadThreadTest : public ::testing::Test {
 protected:
  UploadThreadTest() {
    char name[] = "/tmp/stepscope-upload-XXXXXX";
    folder_ = mkdtemp(name);
    store_ = *Store::Open({(folder_ / "store").string(), false});
    config_.url = "file://" + (folder_ / "out").string();
    config_.jitter_ms = 0;
    seams_ = {store_.get(), &dictionary_, runs_, &clock_};
    seams_.module_path = (fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "lib/stepscope_dataset.so").string();
    seams_.first_retry_ms = 20;
  }
  ~UploadThreadTest() override {
    uploader_.reset();
    store_.reset();
    fs::remove_all(folder_);
  }
  static UploadRun TheRun() {
    UploadRun run;
    run.run = kRun;
    run.uid = 1000;
    run.kind = "run";
    run.id = "1";
    run.node = "n";
    return run;
  }
  void StoreSpans(uint32_t slot, uint32_t seq, int rows) {
    Batch batch = Batch::For(TableId::kSpan, kRun);
    batch.interned = true;
    for (int i = 0; i < rows; ++i) batch.Append(1, {int64_t{slot} * kNsPerSecond + i, 1, 0, 0, i, 1, 0, 0, 0});
    Seal seal;
    seal.blocks.push_back({{kRun, TableId::kSpan, slot, 0, seq}, *EncodeBlock(batch)});
    ASSERT_TRUE(store_->Commit(seal).ok());
  }
  /// What retention does to a block: `kept` of its rows go to the long stripe, a loss row counts the others.
  void Evict(const BlockKey& block, bool uploaded, int kept, int64_t evicted) {
    Batch rows = Batch::For(TableId::kSpan, kRun);
    Batch loss = Batch::For(TableId::kLoss, kRun);
    rows.interned = loss.interned = true;
    for (int i = 0; i < kept; ++i) rows.Append(1, {int64_t{block.slot} * kNsPerSecond + i, 1, 0, 0, i, 1, 0, 0, 0});
    loss.Append(0, {int64_t{block.slot} * kNsPerSecond, 9, static_cast<int64_t>(LossStage::kRetention), 0,
                    static_cast<int64_t>(LossReason::kEvicted), static_cast<int64_t>(TableId::kSpan), evicted, 1});
    Seal seal;
    seal.dropped = {block};
    seal.blocks.push_back({{kRun, TableId::kSpan, kLongSlot, uploaded ? kKeptUploadedShard : kKeptShard, 0}, *EncodeBlock(rows)});
    seal.blocks.push_back({{kRun, TableId::kLoss, kLongSlot, kEvictedShard, uploaded ? 1u : 0u}, *EncodeBlock(loss)});
    ASSERT_TRUE(store_->Commit(seal).ok());
  }
  void StartUploader() {
    uploader_ = CreateUploadThread(config_, seams_);
    uploader_->Start();
  }
  std::vector<fs::path> Files(const std::string& extension) const {
    std::vector<fs::path> files;
    if (!fs::exists(folder_ / "out")) return files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "out")) {
      if (entry.is_regular_file() && entry.path().string().ends_with(extension)) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
  }
  std::string ClosingManifest() const {
    for (const fs::path& path : Files(".json")) {
      if (path.parent_path().filename() == "parts") continue;
      std::ostringstream text;
      text << std::ifstream(path).rdbuf();
      return text.str();
    }
    return "";
  }
  bool WaitRows(uint64_t rows) const {
    for (int i = 0; i < 1000; ++i) {
      const UploadStatus status = uploader_->Status(kRun);
      const auto at = status.rows.find(TableId::kSpan);
      if (at != status.rows.end() && at->second == rows) return true;
      usleep(10'000);
    }
    return false;
  }

  fs::path folder_;
  std::unique_ptr<Store> store_;
  FixedDictionary dictionary_;
  const std::shared_ptr<OneRun> runs_ = std::make_shared<OneRun>(TheRun());
  SystemClock clock_;
  UploadConfig config_;
  UploadSeams seams_;
  std::unique_ptr<Uploader> uploader_;
};

TEST_F(UploadThreadTest, UploadsAnEndedRunAndSaysDone) {
  StoreSpans(1, 0, 100);
  StoreSpans(kLongSlot, 1, 5);
  runs_->End();
  StartUploader();
  ASSERT_TRUE(runs_->WaitDone(60)) << runs_->state().second;
  EXPECT_EQ(Files(".parquet").size(), 1u);
  EXPECT_EQ(uploader_->Status(kRun).state, "done");
  EXPECT_THAT(ClosingManifest(), HasSubstr(R"("state":"complete")"));
  EXPECT_THAT(ClosingManifest(), HasSubstr(R"("rows":{"span":105})"));
}

TEST_F(UploadThreadTest, UploadsPartsWhileTheJobRuns) {
  config_.part_bytes = 1;
  StoreSpans(1, 0, 10);
  StartUploader();
  ASSERT_TRUE(WaitRows(10));
  StoreSpans(2, 1, 10);
  uploader_->Request(kRun);
  ASSERT_TRUE(WaitRows(20));
  EXPECT_EQ(Files(".parquet").size(), 2u);
  EXPECT_EQ(ClosingManifest(), "");
  EXPECT_EQ(runs_->state().first, JobState::kRunning);
  StoreSpans(3, 2, 10);
  runs_->End();
  uploader_->JobEnded(kRun);
  ASSERT_TRUE(runs_->WaitDone(60));
  EXPECT_THAT(ClosingManifest(), HasSubstr(R"("rows":{"span":30})"));
}

TEST_F(UploadThreadTest, WaitsForAPartToFillOrAge) {
  StoreSpans(1, 0, 10);
  StartUploader();
  uploader_->Request(kRun);
  ASSERT_TRUE(WaitRows(10));
  StoreSpans(2, 1, 10);
  uploader_->Stop();
  EXPECT_EQ(Files(".parquet").size(), 1u);  // 128 MB and 10 minutes are not reached
}

TEST_F(UploadThreadTest, FindsABlockThatWasStoredLate) {
  config_.part_bytes = 1;
  StoreSpans(500, 0, 10);
  StartUploader();
  ASSERT_TRUE(WaitRows(10));
  StoreSpans(3, 1, 10);  // far before what was seen
  runs_->End();
  uploader_->JobEnded(kRun);
  ASSERT_TRUE(runs_->WaitDone(60));
  EXPECT_THAT(ClosingManifest(), HasSubstr(R"("rows":{"span":20})"));
}

TEST_F(UploadThreadTest, DrainsMemoryBeforeTheTail) {
  seams_.drain = [this] {
    StoreSpans(9, 4, 3);
    return absl::OkStatus();
  };
  StoreSpans(1, 0, 10);
  runs_->End();
  StartUploader();
  ASSERT_TRUE(runs_->WaitDone(60));
  EXPECT_THAT(ClosingManifest(), HasSubstr(R"("rows":{"span":13})"));
}

TEST_F(UploadThreadTest, KeepsTheJobWhenThePlaceCannotBeWritten) {
  StoreSpans(1, 0, 10);
  std::ofstream(folder_ / "out") << "a file where the folder should be";
  runs_->End();
  StartUploader();
  ASSERT_TRUE(runs_->WaitSettled(60));
  EXPECT_EQ(runs_->state().first, JobState::kFailed);
  EXPECT_THAT(runs_->state().second, HasSubstr("next try in"));
  EXPECT_EQ(uploader_->Status(kRun).state, "failed");
  fs::remove(folder_ / "out");
  ASSERT_TRUE(runs_->WaitDone(60)) << "the next try succeeds by itself";
  EXPECT_THAT(ClosingManifest(), HasSubstr(R"("rows":{"span":10})"));
  EXPECT_EQ(uploader_->Status(kRun).reason, "");
}

TEST_F(UploadThreadTest, SaysWhatIsMissingWithoutTheModule) {
  seams_.module_path = "/nonexistent/stepscope_dataset.so";
  runs_->End();
  StoreSpans(1, 0, 10);
  StartUploader();
  ASSERT_TRUE(runs_->WaitSettled(60));
  EXPECT_THAT(runs_->state().second, HasSubstr("upload needs lib/stepscope_dataset.so"));
}

TEST_F(UploadThreadTest, WithoutAUrlAJobIsDoneWhenItEnds) {
  config_.url = "";
  runs_->End();
  StartUploader();
  ASSERT_TRUE(runs_->WaitDone(60));
  EXPECT_EQ(uploader_->Status(kRun).state, "off");
}

TEST_F(UploadThreadTest, MakesAnObjectAgainThatIsGone) {
  config_.part_bytes = 1;
  StoreSpans(1, 0, 10);
  StartUploader();
  ASSERT_TRUE(WaitRows(10));
  uploader_.reset();
  const std::vector<fs::path> before = Files(".parquet");
  ASSERT_EQ(before.size(), 1u);
  fs::resize_file(before[0], 3);
  runs_->End();
  StartUploader();
  ASSERT_TRUE(runs_->WaitDone(60));
  EXPECT_EQ(Files(".parquet"), before);
  EXPECT_GT(fs::file_size(before[0]), 1000u);
}

TEST_F(UploadThreadTest, FinishesAPartAnEarlierProcessPlanned) {
  StoreSpans(1, 0, 10);
  StoreSpans(2, 1, 10);
  store::v1::UploadPart part;
  part.set_state(store::v1::UploadPart::PLANNED);
  part.set_first_slot(1);
  part.set_last_slot(1);
  store::v1::UploadFile& file = *part.add_files();
  file.set_table(static_cast<uint32_t>(TableId::kSpan));
  file.set_path("v1/span/planned.parquet");
  file.set_blocks(1);
  file.set_rows(10);
  store::v1::UploadBlocks& range = *file.add_ranges();
  range.set_slot(1);
  ASSERT_TRUE(store_->PutUpload(kRun, 0, part.SerializeAsString()).ok());
  runs_->End();
  StartUploader();
  ASSERT_TRUE(runs_->WaitDone(60));
  EXPECT_EQ(Files(".parquet").size(), 2u);
  EXPECT_THAT(ClosingManifest(), HasSubstr(R"("rows":{"span":20})"));
}

TEST_F(UploadThreadTest, LeavesADamagedBlockOutAndSaysSo) {
  StoreSpans(1, 0, 10);
  Seal seal;
  seal.blocks.push_back({{kRun, TableId::kSpan, 2, 0, 1}, "not a block"});
  ASSERT_TRUE(store_->Commit(seal).ok());
  runs_->End();
  StartUploader();
  ASSERT_TRUE(runs_->WaitDone(60));
  EXPECT_THAT(ClosingManifest(), HasSubstr(R"("state":"partial")"));
  EXPECT_THAT(ClosingManifest(), HasSubstr(R"("damaged_blocks":1)"));
}

TEST_F(UploadThreadTest, RowsEvictedAfterTheirUploadAreCompleteThereAndNotUploadedAgain) {
  StoreSpans(1, 0, 10);
  StartUploader();
  uploader_->Request(kRun);
  ASSERT_TRUE(WaitRows(10));
  Evict({kRun, TableId::kSpan, 1, 0, 0}, /*uploaded=*/true, 3, 7);
  StoreSpans(2, 1, 5);
  runs_->End();
  uploader_->JobEnded(kRun);
  ASSERT_TRUE(runs_->WaitDone(60)) << runs_->state().second;
  EXPECT_THAT(ClosingManifest(), HasSubstr(R"("rows":{"span":15})"));
  EXPECT_THAT(ClosingManifest(), HasSubstr(R"("state":"complete")"));
  EXPECT_THAT(ClosingManifest(), HasSubstr(R"("loss":[])"));
}

TEST_F(UploadThreadTest, RowsEvictedBeforeTheirUploadAreMissingThereAndTheManifestSaysSo) {
  StoreSpans(1, 0, 10);
  StartUploader();
  usleep(300'000);  // it has seen the block by now, or will not
  Evict({kRun, TableId::kSpan, 1, 0, 0}, /*uploaded=*/false, 3, 7);
  StoreSpans(2, 1, 5);
  runs_->End();
  uploader_->JobEnded(kRun);
  ASSERT_TRUE(runs_->WaitDone(60)) << runs_->state().second;
  EXPECT_THAT(ClosingManifest(), HasSubstr(R"("rows":{"span":8,"loss":1})"));
  EXPECT_THAT(ClosingManifest(), HasSubstr(R"("stored_rows":{"span":15,"loss":1})"));
  EXPECT_THAT(ClosingManifest(), HasSubstr(R"("state":"partial")"));
  EXPECT_THAT(ClosingManifest(), HasSubstr(R"("count":7)"));
}

TEST_F(UploadThreadTest, LeavesNoPartialFiles) {
  StoreSpans(1, 0, 10);
  runs_->End();
  StartUploader();
  ASSERT_TRUE(runs_->WaitDone(60));
  EXPECT_TRUE(Files(".partial").empty());
}

TEST_F(UploadThreadTest, TheClosingManifestSaysHowManyNodesTheJobHas) {
  JobTable jobs(store_.get(), &clock_, "boot", "n", JobTable::Hooks{});
  const ProcessKey self{Pid{getpid()}, *ReadStartTicks(Pid{getpid()})};
  const absl::StatusOr<RunId> run = jobs.RunForSession(self, getuid(), {{"STEPSCOPE_JOB", "j"}, {"GROUP_WORLD_SIZE", "3"}});
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_TRUE(jobs.EndJob(*run, "").ok());
  Uploader::Parts parts{store_.get(), &dictionary_, &jobs, &clock_};
  parts.module_path = seams_.module_path;
  uploader_ = Uploader::Create(config_, parts);
  uploader_->Start();
  for (int i = 0; i < 1000 && uploader_->Status(*run).state != "done"; ++i) usleep(10'000);
  EXPECT_THAT(ClosingManifest(), HasSubstr(R"("nodes_expected":3)"));
  uploader_.reset();
}

/// The futex operation of the wait with an end that thread `tid` of this process is in; nullopt = it is in none.
std::optional<uint64_t> OperationOfTimedWait(const std::string& tid) {
  std::ifstream call("/proc/self/task/" + tid + "/syscall");
  int64_t number = -1;
  uint64_t word = 0, operation = 0, value = 0, timeout = 0;
  call >> number >> std::hex >> word >> operation >> value >> timeout;
  return number == SYS_futex && timeout != 0 ? std::optional(operation) : std::nullopt;
}

std::optional<uint64_t> OperationOfTimedWaitOfThread(const std::string& name) {
  for (const auto& task : fs::directory_iterator("/proc/self/task")) {
    std::string comm;
    std::getline(std::ifstream(task.path() / "comm"), comm);
    if (comm == name) return OperationOfTimedWait(task.path().filename());
  }
  return std::nullopt;
}

// A clock set back by an hour would hold a thread that waits for a time of the wall clock for that hour.
TEST_F(UploadThreadTest, WaitsByTheClockThatNobodyCanSet) {
  StartUploader();
  std::optional<uint64_t> operation;
  for (int i = 0; i < 1000 && !operation; ++i) {
    operation = OperationOfTimedWaitOfThread("uploader");
    if (!operation) usleep(10'000);
  }
  ASSERT_TRUE(operation) << "the thread was never seen waiting for a time";
  EXPECT_EQ(*operation & FUTEX_CLOCK_REALTIME, 0u);
}

}  // namespace
}  // namespace stepscope
