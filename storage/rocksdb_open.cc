// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb_open.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "base/status.h"
#include "rocksdb/cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/table.h"
#include "storage/keys.h"
#include "storage/rocksdb_status.h"

namespace stepscope {
namespace {

constexpr size_t kMiB = 1u << 20;

struct FamilySpec {
  std::string_view name;
  size_t write_buffer_bytes;
  rocksdb::CompressionType compression;
};
constexpr std::array<FamilySpec, kFamilies> kSpecs = {{
    {"meta", 2 * kMiB, rocksdb::kNoCompression},
    {"names", 2 * kMiB, rocksdb::kZSTD},
    {"blocks", 16 * kMiB, rocksdb::kNoCompression},
    {"rollup", 4 * kMiB, rocksdb::kZSTD},
    {"tiles", 4 * kMiB, rocksdb::kZSTD},
    {"position", 1 * kMiB, rocksdb::kNoCompression},
    {"upload", 1 * kMiB, rocksdb::kNoCompression},
}};
/// Small enough that blocks of slow tables are blobs too: table files are small (below), and a store of many gigabytes must not
/// need a hundred thousand of them.
constexpr uint64_t kMinBlobBytes = 512;
constexpr std::string_view kFormatSetting = "store_format";

/// `usual`, or less where that is more than 1/`share` of the disk the store may use; at least 1 MiB.
uint64_t Share(uint64_t usual, uint64_t max_bytes, uint64_t share) {
  return max_bytes == 0 ? usual : std::clamp<uint64_t>(max_bytes / share, kMiB, usual);
}

rocksdb::ColumnFamilyOptions FamilyOptions(const FamilySpec& spec, const std::shared_ptr<rocksdb::Cache>& cache,
                                           uint64_t max_bytes) {
  rocksdb::ColumnFamilyOptions options;
  options.write_buffer_size = Share(spec.write_buffer_bytes, max_bytes, 64);
  options.max_write_buffer_number = 2;
  options.compression = spec.compression;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.cache_index_and_filter_blocks = true;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  if (spec.name == "blocks") {
    // Blocks are compressed already and written once: as blobs they are never rewritten by compaction. Garbage collection stays
    // off in ordinary compaction for the same reason; DeleteRun forces it where there is garbage.
    options.enable_blob_files = true;
    options.min_blob_size = kMinBlobBytes;
    options.blob_file_size = Share(64 * kMiB, max_bytes, 64);
    options.blob_compression_type = rocksdb::kNoCompression;
    options.enable_blob_garbage_collection = false;
    // A table file holds references only; small ones keep the data that DeleteRun has to move (all live blobs of a table file)
    // near 500 MB.
    options.target_file_size_base = max_bytes == 0 ? 64 << 10 : std::clamp<uint64_t>(max_bytes / 4096, 8 << 10, 64 << 10);
    options.max_bytes_for_level_base = 4 * kMiB;
  }
  return options;
}

rocksdb::DBOptions DatabaseOptions(bool read_only, uint64_t max_bytes) {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.max_background_jobs = 2;
  // A reader beside a live daemon holds every file open, so that a compaction cannot take one from under it.
  options.max_open_files = read_only ? -1 : 128;
  options.max_file_opening_threads = 1;
  options.max_total_wal_size = Share(64 * kMiB, max_bytes, 32);
  // A list of the files there are; it is written anew when it has grown to this.
  options.max_manifest_file_size = Share(16 * kMiB, max_bytes, 64);
  options.manifest_preallocation_size = 256 << 10;
  options.bytes_per_sync = kMiB;
  options.wal_bytes_per_sync = kMiB;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.skip_stats_update_on_db_open = true;
  options.info_log_level = rocksdb::WARN_LEVEL;
  options.max_log_file_size = kMiB;
  options.keep_log_file_num = 2;
  return options;
}

absl::Status PrepareDirectory(const Store::Options& options) {
  std::error_code error;
  if (options.read_only) {
    if (std::filesystem::exists(options.path + "/CURRENT", error)) return absl::OkStatus();
    return absl::NotFoundError(fmt::format("there is no store in {}; give the --data-dir of a stepscoped", options.path));
  }
  const bool created = std::filesystem::create_directories(options.path, error);
  if (error) {
    return ErrnoStatus(error.value(), fmt::format("create store directory {}", options.path), "give another --data-dir");
  }
  // Annotations and process names of every user of the node are in here.
  if (created) chmod(options.path.c_str(), 0700);
  if (access(options.path.c_str(), R_OK | W_OK | X_OK) != 0) {
    return ErrnoStatus(errno, fmt::format("write to store directory {}", options.path),
                       "make it writable for this user or give another --data-dir");
  }
  return absl::OkStatus();
}

/// Our families in the order of `Family`, then whatever else the store has: RocksDB opens all or none.
std::vector<rocksdb::ColumnFamilyDescriptor> Descriptors(const std::string& path, uint64_t max_bytes) {
  const auto cache = rocksdb::NewLRUCache(8 * kMiB, /*num_shard_bits=*/2);
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  descriptors.reserve(kSpecs.size());
  for (const FamilySpec& spec : kSpecs) descriptors.emplace_back(std::string(spec.name), FamilyOptions(spec, cache, max_bytes));
  std::vector<std::string> present = {rocksdb::kDefaultColumnFamilyName};
  rocksdb::DB::ListColumnFamilies({}, path, &present).PermitUncheckedError();
  if (present.empty()) present.push_back(rocksdb::kDefaultColumnFamilyName);
  for (const std::string& name : present) {
    const bool ours = std::any_of(kSpecs.begin(), kSpecs.end(), [&](const FamilySpec& spec) { return spec.name == name; });
    if (!ours) descriptors.emplace_back(name, FamilyOptions({name, kMiB, rocksdb::kNoCompression}, cache, max_bytes));
  }
  return descriptors;
}

absl::Status CheckFormat(const OpenDb& open, const Store::Options& options) {
  const std::string key = EncodeMetaKey("setting", kFormatSetting);
  std::string value;
  const rocksdb::Status got = open.db().Get({}, open.family(Family::kMeta), key, &value);
  if (got.IsNotFound() && !options.read_only) {
    return RocksDbStatus(open.db().Put({}, open.family(Family::kMeta), key, std::to_string(kStoreFormat)), options.path,
                         "set format");
  }
  if (!got.ok()) return RocksDbStatus(got, options.path, "read its format version");
  int format = 0;
  std::from_chars(value.data(), value.data() + value.size(), format);
  if (format >= 1 && format <= kStoreFormat) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "store {} has format {}, written by a newer stepscope; this release reads formats 1 to {}: use the newer release "
      "or give another --data-dir",
      options.path, value, kStoreFormat));
}

}  // namespace

OpenDb::~OpenDb() {
  rocksdb::CancelAllBackgroundWork(db_.get(), /*wait=*/true);
  for (rocksdb::ColumnFamilyHandle* handle : handles_) db_->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
}

absl::StatusOr<std::unique_ptr<OpenDb>> OpenRocksDb(const Store::Options& options) {
  STEPSCOPE_RETURN_IF_ERROR(PrepareDirectory(options));
  const std::vector<rocksdb::ColumnFamilyDescriptor> descriptors = Descriptors(options.path, options.max_bytes);
  rocksdb::DB* db = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  const rocksdb::DBOptions db_options = DatabaseOptions(options.read_only, options.max_bytes);
  const rocksdb::Status status = options.read_only
                                     ? rocksdb::DB::OpenForReadOnly(db_options, options.path, descriptors, &handles, &db)
                                     : rocksdb::DB::Open(db_options, options.path, descriptors, &handles, &db);
  if (IsLockConflict(status)) return LockConflict(status, options.path);
  if (!status.ok()) return RocksDbStatus(status, options.path, "open");
  auto open = std::make_unique<OpenDb>(std::unique_ptr<rocksdb::DB>(db), std::move(handles));
  STEPSCOPE_RETURN_IF_ERROR(CheckFormat(*open, options));
  return open;
}

}  // namespace stepscope
