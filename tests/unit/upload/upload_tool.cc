// SPDX-License-Identifier: Apache-2.0
// upload_tool: what the daemon does with a run, as one small program. Rows come from a text file that a test wrote, so the test
// knows what must come out at the other end without asking the code under test.
//
//   upload_tool load   --rows FILE --store DIR             stores the rows
//   upload_tool upload --rows FILE --store DIR --url URL   uploads them as an ended run; prints "done" or "failed: reason"
//   upload_tool bench  --count N --url file:///DIR         prints bytes and seconds per row of sched_slice
//
// Lines of FILE, fields separated by tabs:
//   J uid kind id attempt node boot_id start_node_ns start_wall_ns
//   E id kind a b c rank name text         N id text
//   B table slot shard seq                 begins a block            R lane value…   a row of it
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "daemon/upload/upload_thread.h"
#include "tests/unit/upload/upload_fakes.h"
#include "trace/block.h"

namespace stepscope {
namespace {

constexpr RunId kRun{7};

struct Input {
  UploadRun run;
  FixedDictionary dictionary;
  std::vector<std::pair<BlockKey, Batch>> blocks;
};

std::vector<std::string> Fields(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char c : line) {
    if (c == '\t') {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

void ReadLine(const std::vector<std::string>& f, Input& input) {
  const auto number = [&](size_t i) { return std::stoll(f.at(i)); };
  if (f[0] == "J") {
    input.run.run = kRun;
    input.run.uid = static_cast<uint32_t>(number(1));
    input.run.kind = f.at(2);
    input.run.id = f.at(3);
    input.run.attempt = static_cast<uint32_t>(number(4));
    input.run.node = f.at(5);
    input.run.boot_id = f.at(6);
    input.run.start_node = {number(7)};
    input.run.start_wall = {number(8)};
  } else if (f[0] == "E") {
    EntityInfo& entity = input.dictionary.entities[static_cast<uint32_t>(number(1))];
    entity.key = {static_cast<EntityKind>(number(2)), number(3), number(4), number(5), f.at(8)};
    entity.rank = static_cast<int32_t>(number(6));
    entity.name = f.at(7);
  } else if (f[0] == "N") {
    input.dictionary.names[static_cast<uint32_t>(number(1))] = f.at(2);
  } else if (f[0] == "B") {
    const BlockKey key{kRun, FindTable(f.at(1))->id, static_cast<uint32_t>(number(2)), static_cast<uint16_t>(number(3)),
                       static_cast<uint32_t>(number(4))};
    input.blocks.push_back({key, Batch::For(key.table, kRun)});
    input.blocks.back().second.interned = true;
  } else if (f[0] == "R") {
    Batch& batch = input.blocks.back().second;
    batch.lane.push_back(static_cast<uint32_t>(number(1)));
    for (size_t c = 0; c < batch.columns.size(); ++c) batch.columns[c].push_back(number(c + 2));
  }
}

Input ReadInput(const std::string& path) {
  Input input;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) ReadLine(Fields(line), input);
  return input;
}

std::unique_ptr<Store> OpenStore(const std::string& path) {
  auto store = Store::Open({path, false});
  if (!store.ok()) {
    fmt::print(stderr, "{}\n", std::string(store.status().message()));
    std::exit(2);
  }
  return *std::move(store);
}

void Load(const Input& input, Store& store) {
  for (const auto& [key, batch] : input.blocks) {
    Seal seal;
    seal.blocks.push_back({key, *EncodeBlock(batch)});
    if (const absl::Status status = store.Commit(seal); !status.ok()) std::exit(2);
  }
  if (!store.Sync().ok()) std::exit(2);
}

int Upload(const Input& input, Store& store, const UploadConfig& config, double wait_seconds, int64_t retry_ms) {
  const SystemClock clock;
  const auto runs = std::make_shared<OneRun>(input.run);
  runs->End();
  UploadSeams seams{&store, &input.dictionary, runs, &clock};
  seams.first_retry_ms = retry_ms;
  // The tool lies in tests/, beside lib/.
  seams.module_path =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "lib/stepscope_dataset.so").string();
  const std::unique_ptr<Uploader> uploader = CreateUploadThread(config, seams);
  uploader->Start();
  if (wait_seconds > 0) {
    runs->WaitDone(wait_seconds);
  } else {
    runs->WaitSettled(600);
  }
  const UploadStatus status = uploader->Status(kRun);
  uploader->Stop();
  const auto [state, reason] = runs->state();
  fmt::print("{}: {}\n", JobState::kDone == state ? "done" : "failed", reason);
  fmt::print("parts {} bytes {}\n", status.parts_done, status.bytes_done);
  for (const auto& [table, rows] : status.rows) fmt::print("rows {} {}\n", FindTable(table)->name, rows);
  return state == JobState::kDone ? 0 : 1;
}

/// Slices as a busy node makes them: 64 threads on 8 CPUs, turns of 5 µs to 4 ms, mostly one kind of syscall per thread.
Input MakeSlices(int64_t count) {
  Input input;
  input.run.run = kRun;
  input.run.kind = "run";
  input.run.id = "bench";
  input.run.node = "node-a";
  input.run.start_wall = {1'700'000'000'000'000'000};
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> turn_ns(std::log(60'000.0), 1.5);
  std::array<int64_t, 64> now{}, seq{};
  for (uint32_t t = 0; t < 64; ++t) {
    input.dictionary.entities[t + 1].key = {EntityKind::kThread, 100 + t / 16, 5, 1000 + t, ""};
    input.dictionary.entities[t + 1].name = fmt::format("thread-{}", t);
  }
  for (int64_t made = 0; made < count;) {
    const uint32_t seq_of_block = static_cast<uint32_t>(input.blocks.size());
    Batch batch = Batch::For(TableId::kSchedSlice, kRun);
    batch.interned = true;
    for (uint32_t row = 0; row < kMaxBlockRows && made < count; ++row, ++made) {
      const size_t t = random() % 64;
      const int64_t dur = static_cast<int64_t>(turn_ns(random)) + 5000,
                    wait = random() % 4 == 0 ? static_cast<int64_t>(random() % 200'000) : 1500;
      now[t] += wait + static_cast<int64_t>(turn_ns(random));
      batch.Append(static_cast<uint32_t>(t + 1),
                   {now[t], dur, wait, static_cast<int64_t>(t % 8), static_cast<int64_t>(1000 + random() % 8),
                    static_cast<int64_t>(random() % 3), static_cast<int64_t>(200 + t % 5),
                    static_cast<int64_t>(0x7f0000001000 + (t % 7) * 64), 0, ++seq[t], dur - 300, wait, 300, 0, 0});
      now[t] += dur;
    }
    input.blocks.push_back({{kRun, TableId::kSchedSlice, seq_of_block, 0, seq_of_block}, std::move(batch)});
  }
  return input;
}

int Bench(int64_t count, const std::string& store_path, const UploadConfig& config) {
  const std::unique_ptr<Store> store = OpenStore(store_path);
  Input input = MakeSlices(count);
  Load(input, *store);
  input.blocks.clear();
  const auto begin = std::chrono::steady_clock::now();
  const int failed = Upload(input, *store, config, 0, 5000);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  uint64_t bytes = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(config.url.substr(7))) {
    if (file.path().extension() == ".parquet") bytes += file.file_size();
  }
  fmt::print("{} rows: {:.2f} B/row, {:.0f} rows/s\n", count, static_cast<double>(bytes) / static_cast<double>(count),
             static_cast<double>(count) / seconds.count());
  return failed;
}

int Main(int argc, char** argv) {
  CLI::App app("Fill a store and upload it");
  app.require_subcommand(1);
  std::string rows, store_path;
  UploadConfig config;
  config.jitter_ms = 0;
  double wait_seconds = 0;
  int64_t retry_ms = 5000, count = 1'000'000;
  CLI::App* const load = app.add_subcommand("load");
  CLI::App* const upload = app.add_subcommand("upload");
  CLI::App* const bench = app.add_subcommand("bench");
  for (CLI::App* command : {load, upload, bench}) command->add_option("--store", store_path)->required();
  for (CLI::App* command : {load, upload}) command->add_option("--rows", rows)->required();
  for (CLI::App* command : {upload, bench}) {
    command->add_option("--url", config.url)->required();
    command->add_option("--endpoint", config.endpoint);
    command->add_option("--region", config.region);
    command->add_option("--part-bytes", config.part_bytes);
  }
  upload->add_option("--wait", wait_seconds, "wait for done this long, through failures");
  upload->add_option("--retry-ms", retry_ms);
  bench->add_option("--count", count);
  CLI11_PARSE(app, argc, argv);
  if (bench->parsed()) return Bench(count, store_path, config);
  const Input input = ReadInput(rows);
  const std::unique_ptr<Store> store = OpenStore(store_path);
  if (load->parsed()) {
    Load(input, *store);
    return 0;
  }
  return Upload(input, *store, config, wait_seconds, retry_ms);
}

}  // namespace
}  // namespace stepscope

int main(int argc, char** argv) { return stepscope::Main(argc, argv); }
