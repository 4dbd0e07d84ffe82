// SPDX-License-Identifier: Apache-2.0
#include "storage/parquet/dataset.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "base/status.h"

namespace stepscope {
namespace {

namespace fs = std::filesystem;

constexpr size_t kSseKeyBytes = 32;

/// Where the dataset lives, taken apart.
struct Place {
  std::string url;
  std::string root;  ///< bucket/prefix or folder
  bool s3 = false;
  std::string endpoint;  ///< as configured, for texts
  std::string host;
  std::string scheme = "https";
};

bool IsLoopback(std::string_view host_port) {
  // "127." alone could be a name, "127.evil.example"
  return (host_port.starts_with("127.") && host_port.find_first_not_of("0123456789.:") == std::string_view::npos) ||
         host_port.starts_with("[::1]") || host_port == "localhost" || host_port.starts_with("localhost:");
}

absl::Status ParseEndpoint(Place& place) {
  std::string_view rest = place.endpoint;
  if (rest.empty()) return absl::OkStatus();
  if (const size_t mark = rest.find("://"); mark != std::string_view::npos) {
    place.scheme = rest.substr(0, mark);
    rest.remove_prefix(mark + 3);
  }
  while (rest.ends_with('/')) rest.remove_suffix(1);
  place.host = rest;
  if (rest.empty() || (place.scheme != "http" && place.scheme != "https")) {
    return absl::InvalidArgumentError(
        fmt::format("upload endpoint {}: not of the form https://host:port; correct upload.endpoint", place.endpoint));
  }
  if (place.scheme == "http" && !IsLoopback(rest)) {
    return absl::InvalidArgumentError(
        fmt::format("upload endpoint {}: plain http would send the rows unencrypted; use https, or an address on this machine",
                    place.endpoint));
  }
  return absl::OkStatus();
}

absl::StatusOr<Place> ParsePlace(const DatasetOptions& options) {
  Place place;
  place.url = options.url;
  place.endpoint = options.endpoint;
  std::string_view rest = options.url;
  while (rest.ends_with('/') && rest.size() > 1) rest.remove_suffix(1);
  if (rest.starts_with("s3://") && rest.size() > 5) {
    place.s3 = true;
    place.root = rest.substr(5);
  } else if (rest.starts_with("file:///")) {
    place.root = rest.substr(7);
  } else {
    return absl::InvalidArgumentError(
        fmt::format("upload url {}: neither s3://bucket/prefix nor file:///folder; correct upload.url", options.url));
  }
  STEPSCOPE_RETURN_IF_ERROR(ParseEndpoint(place));
  return place;
}

absl::StatusOr<std::string> ReadSseKey(const std::string& file) {
  if (file.empty()) return std::string();
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  std::string key = text.str();
  if (in && key.size() == kSseKeyBytes) return key;
  return absl::InvalidArgumentError(
      fmt::format("{}: an SSE-C key file holds exactly 32 raw bytes; make one with: head -c 32 /dev/urandom > {}", file, file));
}

std::vector<fs::path> ModuleCandidates(const DatasetOptions& options) {
  if (!options.module_path.empty()) return {options.module_path};
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  return {program.parent_path() / "lib" / "stepscope_dataset.so", program / "stepscope_dataset.so"};
}

#ifdef STEPSCOPE_NO_DEEPBIND
constexpr int kDatasetMode = RTLD_NOW | RTLD_LOCAL;
#else
constexpr int kDatasetMode = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif

/// A module and where it was found; its neighbours lie in the same folder.
struct LoadedModule {
  const DatasetModule* module;
  fs::path folder;
};

/// Never closed: Arrow keeps threads and exit handlers.
absl::StatusOr<LoadedModule> LoadModule(const DatasetOptions& options) {
  const std::vector<fs::path> candidates = ModuleCandidates(options);
  std::string cause;
  for (const fs::path& path : candidates) {
    void* handle = dlopen(path.c_str(), kDatasetMode);
    if (handle == nullptr) {
      cause += fmt::format("{}{}", cause.empty() ? "" : "; ", dlerror());
      continue;
    }
    const auto entry = reinterpret_cast<DatasetEntryPoint>(dlsym(handle, kDatasetEntryPoint));
    const DatasetModule* module = entry != nullptr ? entry() : nullptr;
    if (module != nullptr && module->abi == kDatasetAbi) return LoadedModule{module, path.parent_path()};
    return absl::FailedPreconditionError(
        fmt::format("{} is of another release; install stepscoped and its lib folder together", path.string()));
  }
  return absl::NotFoundError(fmt::format(
      "upload needs lib/stepscope_dataset.so, which does not open ({}); build with STEPSCOPE_ARROW=ON, or keep the lib "
      "folder of the release beside bin",
      cause));
}

absl::Status FolderError(absl::StatusCode code, const std::string& at, const DatasetResult& result) {
  return {code, fmt::format("{}: {}; make it a folder that stepscoped can write to, with free space", at, result.text)};
}

absl::Status ToStatus(const Place& place, const DatasetResult& result) {
  const std::string at = place.endpoint.empty() ? place.url : fmt::format("{} at {}", place.url, place.endpoint);
  switch (result.code) {
    case DatasetCode::kOk:
      return absl::OkStatus();
    case DatasetCode::kDenied:
      if (!place.s3) return FolderError(absl::StatusCode::kPermissionDenied, at, result);
      return absl::PermissionDeniedError(fmt::format(
          "{}: access denied: the access key or secret is wrong, or may not write there; check the AWS credentials that "
          "stepscoped sees (environment, ~/.aws, instance role) ({})",
          at, result.text));
    case DatasetCode::kNoBucket:
      return absl::NotFoundError(
          fmt::format("{}: the bucket does not exist; create it or correct upload.url ({})", at, result.text));
    case DatasetCode::kUnreachable:
      return absl::UnavailableError(
          fmt::format("{}: no answer; check that the endpoint runs and can be reached from this node ({})", at, result.text));
    case DatasetCode::kInvalid:
      return absl::InvalidArgumentError(fmt::format("{}: {}; correct the upload section of the configuration", at, result.text));
    case DatasetCode::kFailed:
      break;
  }
  if (!place.s3) return FolderError(absl::StatusCode::kInternal, at, result);
  return absl::InternalError(fmt::format("{}: upload failed: {}; it is tried again by itself", at, result.text));
}

/// Base URL of the server, for requests that Arrow cannot make.
std::string ServerUrl(const Place& place, std::string_view region) {
  if (!place.host.empty()) return fmt::format("{}://{}", place.scheme, place.host);
  return fmt::format("https://s3.{}.amazonaws.com{}", region, region.starts_with("cn-") ? ".cn" : "");
}

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) { EVP_DigestInit_ex(context_, EVP_sha256(), nullptr); }
  ~Sha256() { EVP_MD_CTX_free(context_); }
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Add(const void* data, size_t bytes) {
    EVP_DigestUpdate(context_, data, bytes);
    bytes_ += bytes;
  }
  FileTotals Totals() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    EVP_DigestFinal_ex(context_, digest, &length);
    FileTotals totals;
    totals.bytes = bytes_;
    for (unsigned int i = 0; i < length; ++i) totals.sha256 += fmt::format("{:02x}", digest[i]);
    return totals;
  }

 private:
  EVP_MD_CTX* const context_;
  uint64_t bytes_ = 0;
};

class ModuleFile final : public Dataset::File {
 public:
  explicit ModuleFile(const Place& place) : place_(place) {}
  ~ModuleFile() override {
    if (file_ != nullptr) file_->Release();
  }
  absl::Status Create(DatasetStore& store, const std::string& path, std::span<const ParquetColumn> columns) {
    const DatasetSink sink = [](void* self, const void* data, size_t bytes) { static_cast<Sha256*>(self)->Add(data, bytes); };
    return ToStatus(
        place_, store.CreateParquet(path.c_str(), columns.data(), static_cast<int32_t>(columns.size()), sink, &hash_, &file_));
  }
  absl::Status BeginRowGroup() override { return ToStatus(place_, file_->BeginRowGroup()); }
  absl::Status WriteInts(std::span<const int64_t> values) override {
    return ToStatus(place_, file_->WriteInts(values.data(), static_cast<int64_t>(values.size())));
  }
  absl::Status WriteStrings(std::span<const int32_t> indices, std::span<const std::string> dictionary) override {
    std::vector<DatasetText> words;
    for (const std::string& word : dictionary) words.push_back({word.data(), word.size()});
    return ToStatus(place_, file_->WriteStrings(indices.data(), static_cast<int64_t>(indices.size()), words.data(),
                                                static_cast<int32_t>(words.size())));
  }
  absl::StatusOr<FileTotals> Close() override {
    STEPSCOPE_RETURN_IF_ERROR(ToStatus(place_, file_->Close()));
    return hash_.Totals();
  }

 private:
  const Place& place_;
  Sha256 hash_;
  DatasetFile* file_ = nullptr;
};

class ModuleDataset final : public Dataset {
 public:
  ModuleDataset(Place place, fs::path folder) : place_(std::move(place)), folder_(std::move(folder)) {}
  ~ModuleDataset() override {
    if (store_ != nullptr) store_->Release();
  }
  absl::Status Connect(const DatasetModule& module, const DatasetOptions& options) {
    STEPSCOPE_ASSIGN_OR_RETURN(const std::string key, ReadSseKey(options.sse_c_key_file));
    DatasetConfig config;
    config.root = place_.root.c_str();
    config.s3 = place_.s3;
    config.endpoint = place_.host.c_str();
    config.scheme = place_.scheme.c_str();
    config.region = options.region.c_str();
    config.sse_c_key = key.data();
    config.sse_c_key_bytes = key.size();
    return ToStatus(place_, module.open(&config, &store_));
  }
  absl::StatusOr<std::unique_ptr<File>> CreateParquet(const std::string& path, std::span<const ParquetColumn> columns) override {
    auto file = std::make_unique<ModuleFile>(place_);
    STEPSCOPE_RETURN_IF_ERROR(file->Create(*store_, path, columns));
    return file;
  }
  absl::Status PutText(const std::string& path, std::string_view text) override {
    return ToStatus(place_, store_->PutBytes(path.c_str(), text.data(), text.size()));
  }
  absl::StatusOr<int64_t> Size(const std::string& path) override {
    int64_t bytes = -1;
    STEPSCOPE_RETURN_IF_ERROR(ToStatus(place_, store_->Size(path.c_str(), &bytes)));
    return bytes;
  }
  absl::StatusOr<int> SweepUploads(const std::string& path) override {
    if (!place_.s3) return 0;
    DatasetKeys keys;
    STEPSCOPE_RETURN_IF_ERROR(ToStatus(place_, store_->Keys(&keys)));
    STEPSCOPE_ASSIGN_OR_RETURN(const SweepEntryPoint sweep, LoadSweep());
    const size_t slash = place_.root.find('/');
    const std::string bucket = place_.root.substr(0, slash);
    const std::string key = (slash == std::string::npos ? "" : place_.root.substr(slash + 1) + "/") + path;
    const std::string server = ServerUrl(place_, keys.region);
    SweepTarget target;
    target.server = server.c_str();
    target.bucket = bucket.c_str();
    target.key = key.c_str();
    target.keys = &keys;
    int32_t aborted = 0;
    STEPSCOPE_RETURN_IF_ERROR(ToStatus(place_, sweep(&target, &aborted)));
    return aborted;
  }

 private:
  absl::StatusOr<SweepEntryPoint> LoadSweep() const {
    void* handle = dlopen((folder_ / "stepscope_sweep.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    void* entry = handle != nullptr ? dlsym(handle, kSweepEntryPoint) : nullptr;
    if (entry != nullptr) return reinterpret_cast<SweepEntryPoint>(entry);
    return absl::NotFoundError(
        fmt::format("lib/stepscope_sweep.so does not open ({}); keep the lib folder of the release together", dlerror()));
  }

  const Place place_;
  const fs::path folder_;
  DatasetStore* store_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> Dataset::Open(const DatasetOptions& options) {
  STEPSCOPE_ASSIGN_OR_RETURN(Place place, ParsePlace(options));
  STEPSCOPE_ASSIGN_OR_RETURN(const LoadedModule loaded, LoadModule(options));
  auto dataset = std::make_unique<ModuleDataset>(std::move(place), loaded.folder);
  STEPSCOPE_RETURN_IF_ERROR(dataset->Connect(*loaded.module, options));
  return dataset;
}

}  // namespace stepscope
