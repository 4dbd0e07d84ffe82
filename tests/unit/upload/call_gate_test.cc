// SPDX-License-Identifier: Apache-2.0
#include "daemon/upload/call_gate.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace stepscope {
namespace {

/// Counts calls; files tell when they are dropped.
class CountingDataset final : public Dataset {
 public:
  class CountingFile final : public File {
   public:
    explicit CountingFile(int* dropped) : dropped_(dropped) {}
    ~CountingFile() override { ++*dropped_; }
    absl::Status BeginRowGroup() override { return absl::OkStatus(); }
    absl::Status WriteInts(std::span<const int64_t>) override { return absl::OkStatus(); }
    absl::Status WriteStrings(std::span<const int32_t>, std::span<const std::string>) override { return absl::OkStatus(); }
    absl::StatusOr<FileTotals> Close() override { return FileTotals(); }

   private:
    int* const dropped_;
  };
  explicit CountingDataset(int* dropped) : dropped_(dropped) {}
  absl::StatusOr<std::unique_ptr<File>> CreateParquet(const std::string&, std::span<const ParquetColumn>) override {
    return std::make_unique<CountingFile>(dropped_);
  }
  absl::Status PutText(const std::string&, std::string_view) override { return absl::OkStatus(); }
  absl::StatusOr<int64_t> Size(const std::string&) override { return 5; }
  absl::StatusOr<int> SweepUploads(const std::string&) override { return 0; }

 private:
  int* const dropped_;
};

TEST(CallGate, RefusesNewCallsOnceStopping) {
  int dropped = 0;
  const auto gate = std::make_shared<CallGate>();
  const std::unique_ptr<Dataset> dataset = GateDataset(std::make_unique<CountingDataset>(&dropped), gate);
  auto file = dataset->CreateParquet("x", {});
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(*dataset->Size("x"), 5);
  gate->Stop();
  EXPECT_TRUE(absl::IsCancelled(dataset->Size("x").status()));
  EXPECT_TRUE(absl::IsCancelled((*file)->Close().status()));
  EXPECT_FALSE(gate->Abandon());  // nobody is inside
  file->reset();
  EXPECT_EQ(dropped, 1);  // cleaning up is still allowed
}

}  // namespace
}  // namespace stepscope
