// SPDX-License-Identifier: Apache-2.0
#include "daemon/upload/call_gate.h"

#include <unistd.h>

#include <utility>

#include "base/status.h"

namespace stepscope {
namespace {

/// Runs `call` inside the gate.
template <typename Call>
auto Through(CallGate& gate, Call call) -> decltype(call()) {
  if (absl::Status status = gate.Enter(); !status.ok()) return status;
  auto result = call();
  gate.Leave();
  return result;
}

class GatedFile final : public Dataset::File {
 public:
  GatedFile(std::unique_ptr<Dataset::File> file, std::shared_ptr<CallGate> gate)
      : file_(std::move(file)), gate_(std::move(gate)) {}
  ~GatedFile() override {
    gate_->EnterToCleanUp();  // an open multipart upload is aborted: one short request
    file_.reset();
    gate_->Leave();
  }
  absl::Status BeginRowGroup() override {
    return Through(*gate_, [&] { return file_->BeginRowGroup(); });
  }
  absl::Status WriteInts(std::span<const int64_t> values) override {
    return Through(*gate_, [&] { return file_->WriteInts(values); });
  }
  absl::Status WriteStrings(std::span<const int32_t> indices, std::span<const std::string> dictionary) override {
    return Through(*gate_, [&] { return file_->WriteStrings(indices, dictionary); });
  }
  absl::StatusOr<FileTotals> Close() override {
    return Through(*gate_, [&] { return file_->Close(); });
  }

 private:
  std::unique_ptr<Dataset::File> file_;
  const std::shared_ptr<CallGate> gate_;
};

class GatedDataset final : public Dataset {
 public:
  GatedDataset(std::unique_ptr<Dataset> dataset, std::shared_ptr<CallGate> gate)
      : dataset_(std::move(dataset)), gate_(std::move(gate)) {}

  absl::StatusOr<std::unique_ptr<File>> CreateParquet(const std::string& path, std::span<const ParquetColumn> columns) override {
    auto file = Through(*gate_, [&] { return dataset_->CreateParquet(path, columns); });
    if (!file.ok()) return file.status();
    return std::make_unique<GatedFile>(*std::move(file), gate_);
  }
  absl::Status PutText(const std::string& path, std::string_view text) override {
    return Through(*gate_, [&] { return dataset_->PutText(path, text); });
  }
  absl::StatusOr<int64_t> Size(const std::string& path) override {
    return Through(*gate_, [&] { return dataset_->Size(path); });
  }
  absl::StatusOr<int> SweepUploads(const std::string& path) override {
    return Through(*gate_, [&] { return dataset_->SweepUploads(path); });
  }

 private:
  const std::unique_ptr<Dataset> dataset_;
  const std::shared_ptr<CallGate> gate_;
};

}  // namespace

absl::Status CallGate::Enter() {
  const absl::MutexLock lock(&mutex_);
  if (stopping_) return absl::CancelledError("stepscoped is stopping; the upload goes on at its next start");
  inside_ = true;
  return absl::OkStatus();
}

void CallGate::EnterToCleanUp() {
  const absl::MutexLock lock(&mutex_);
  inside_ = true;
}

void CallGate::Leave() {
  {
    const absl::MutexLock lock(&mutex_);
    inside_ = false;
    if (!abandoned_) return;
  }
  while (true) pause();
}

void CallGate::Stop() {
  const absl::MutexLock lock(&mutex_);
  stopping_ = true;
}

bool CallGate::stopping() const {
  const absl::MutexLock lock(&mutex_);
  return stopping_;
}

bool CallGate::Abandon() {
  const absl::MutexLock lock(&mutex_);
  if (inside_) abandoned_ = true;
  return inside_;
}

std::unique_ptr<Dataset> GateDataset(std::unique_ptr<Dataset> dataset, std::shared_ptr<CallGate> gate) {
  return std::make_unique<GatedDataset>(std::move(dataset), std::move(gate));
}

}  // namespace stepscope
