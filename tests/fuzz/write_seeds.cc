// SPDX-License-Identifier: Apache-2.0
// fuzz_seeds FOLDER: writes the seeds of every fuzz target, made by the code that writes such bytes in earnest, to
// FOLDER/<target>/seed_<name>. Crashes once found lie beside them under other names.
#include <linux/perf_event.h>
#include <sys/socket.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <thread>

#include "agent/core/ring_file.h"
#include "agent/wire/push_stream.h"
#include "contract/sched_record.h"
#include "daemon/config.h"
#include "daemon/ingest/push_service.h"
#include "daemon/ingest/ring_state.h"
#include "daemon/pipeline/run_state.h"
#include "stepscope/store/v1/store.pb.h"
#include "stepscope/store/v1/upload.pb.h"
#include "stepscope/v1/agent.pb.h"
#include "stepscope/v1/control.pb.h"
#include "stepscope/v1/query.pb.h"
#include "storage/keys.h"
#include "tests/fuzz/pieces.h"
#include "tests/unit/ingest/fake_pipeline.h"
#include "tests/unit/ingest/ring_bytes.h"
#include "tests/unit/ingest/test_agent.h"
#include "trace/entity.h"

namespace stepscope {
namespace {

using fuzz::AppendPiece;
using testing::RingBytesBuilder;
using testing::TestAgent;

std::filesystem::path folder;

void Put(const std::string& target, const std::string& name, const std::string& bytes) {
  std::filesystem::create_directories(folder / target);
  std::ofstream(folder / target / ("seed_" + name), std::ios::binary) << bytes;
}

std::string PiecesOf(const std::vector<std::string>& pieces) {
  std::string out;
  for (const std::string& piece : pieces) AppendPiece(out, piece);
  return out;
}

template <typename Record>
std::string BytesOf(const Record& record) {
  return {reinterpret_cast<const char*>(&record), sizeof(record)};
}

std::string ReadHex(const std::string& name) {
  std::ifstream file(std::string(STEPSCOPE_GOLDEN_DIR) + "/" + name + ".hex");
  std::string bytes, line;
  while (std::getline(file, line)) {
    line = line.substr(0, line.find('#'));
    std::string digits;
    for (const char c : line) {
      if (isxdigit(static_cast<unsigned char>(c))) digits += c;
    }
    for (size_t i = 0; i + 1 < digits.size(); i += 2) bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

std::string RingRecords() {
  return RingBytesBuilder()
      .Thread(41, "main", 1'000)
      .Name(2, "step", 1)
      .Name(3, "loss")
      .Anchor(1'100, 20, 1'100, 1'700'000'000'000'000'000)
      .BeginNumber(2, 2'000, 7)
      .Begin(3, 2'100)
      .Counter(3, 2'200, 0.5)
      .TokenBegin(9, 2, 2'300)
      .End(2'400, 3)
      .TokenEnd(9, 2'500)
      .End(3'000)
      .Number(STEPSCOPE_RECORD_MARK, 2, 3'100, 8)
      .Number(STEPSCOPE_RECORD_WINDOW, 2, 3'200, 1)
      .Info(2, 3'300, "128")
      .Lost(3, 96, 3'400, 3'500, 3)
      .Add(STEPSCOPE_RECORD_GIL, 0, stepscope_record_range{{}, 3'600, 4096, 8192})
      .str();
}

void WriteBlocks() {
  for (const char* name : {"block_counter", "block_empty", "block_example", "block_extremes", "block_sched_slice"}) {
    Put("block", name, ReadHex(name));
  }
}

void WriteRings() {
  const auto piece = [](uint8_t head, const std::string& bytes) {
    std::string out(1, static_cast<char>(head));
    AppendPiece(out, bytes);
    return out;
  };
  for (const char* name : {"ring_example", "ring_lossy"}) Put("ring", name, piece(1, ReadHex(name).substr(0, 60'000)));
  Put("ring", "records", piece(1, RingRecords()));
  Put("ring", "two_rings", piece(1, RingRecords().substr(0, 200)) + piece(2, RingRecords()) + piece(0x81, RingRecords()));
}

void WriteHellos() {
  const TestAgent agent('h');
  Put("hello", "plain", agent.HelloText());
  Put("hello", "facts", agent.HelloText(std::string("RANK=3\0WORLD_SIZE=8\0SLURM_JOB_ID=71\0junk\0=x\0", 44)));
  std::string newer = agent.HelloText();
  newer[12] = static_cast<char>(sizeof(stepscope_hello) + 8);  // `size` of a later release
  Put("hello", "newer", newer + "newfield");
  Put("hello", "cut", agent.HelloText().substr(0, 60));
}

std::string Push(uint32_t ring, uint32_t generation, uint64_t from, const std::string& data) {
  v1::PushRequest request;
  request.set_ring(ring);
  request.set_generation(generation);
  request.set_from(from);
  request.set_to(from + data.size());
  request.set_data(data);
  return request.SerializeAsString();
}

void WritePushRequests() {
  const std::string records = RingRecords();
  Put("push_request", "one", PiecesOf({Push(1, 0, 0, records)}));
  Put("push_request", "overlap", PiecesOf({Push(1, 0, 0, records), Push(1, 0, 40, records), Push(1, 0, 4'000, records)}));
  Put("push_request", "generations", PiecesOf({Push(1, 0, 0, records), Push(1, 1, 0, records), Push(1, 0, 0, records)}));
  Put("push_request", "rings", PiecesOf({Push(0, 0, 0, records), Push(223, 5, 0, records), Push(224, 0, 0, records)}));
}

/// What a gRPC server of ours says to an agent's stream that pushes one ring; one piece a read.
std::string ServerBytes(const std::shared_ptr<Session>& session) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) std::abort();
  const unique_fd client(ends[0]);
  auto service = PushService::Start({[&](const std::string&) { return session; }, [](auto task) { std::thread(task).join(); }});
  (*service)->Serve(unique_fd(ends[1]));
  agent::RingFile file;
  const uint8_t id[16] = {1};
  const char comm[16] = "seed";
  if (file.Create(id, STEPSCOPE_CLOCK_MONOTONIC, 4096).step != nullptr) std::abort();
  file.AcquireThreadRing(1, comm, 1);
  const std::string records = RingRecords();
  std::memcpy(file.data(1), records.data(), records.size());
  file.descriptor(1)->head = records.size();
  agent::RingDrain drain;
  drain.Open(&file);
  static agent::PushStream stream;
  alignas(16) static std::byte arena[agent::PushStream::kArenaBytes];
  stream.Open(arena, &drain, id, sizeof(id));
  std::string all;
  for (int quiet = 0; quiet < 100;) {
    const uint8_t* bytes = nullptr;
    for (long count = 0; (count = stream.NextOutput(&bytes)) > 0;)
      send(client.get(), bytes, static_cast<size_t>(count), MSG_NOSIGNAL);
    char buffer[4096];
    const ssize_t got = recv(client.get(), buffer, sizeof(buffer), 0);
    if (got == 0) break;
    if (got < 0) {
      ++quiet;
      usleep(10'000);
      continue;
    }
    AppendPiece(all, {buffer, static_cast<size_t>(got)});
    stream.Received(reinterpret_cast<const uint8_t*>(buffer), static_cast<size_t>(got));
    stream.Resume();
  }
  (*service)->Stop();
  return all;
}

void WriteHttp2() {
  Put("http2", "not_found", ServerBytes(nullptr));
  testing::FakeStore store;
  ClockRegistry clocks;
  testing::FakePipeline pipeline(&store, &clocks);
  testing::FakeJobs jobs;
  SystemClock clock;
  InnerTids tids(&clock, [] {});
  const TestAgent agent('s');
  auto file = RingFile::Open(unique_fd(fcntl(agent.file(), F_DUPFD_CLOEXEC, 0)), agent.session(), TestAgent::kFileBytes);
  SessionIdentity identity;
  identity.session = agent.session();
  identity.run = {7};
  const auto session = std::make_shared<Session>(
      Session::Parts{&store, &pipeline, &clocks, &jobs, &tids, std::make_shared<IngestStats>(), [](auto&) {}}, identity,
      PeerProcess{}, 1, *std::move(file));
  if (!session->Load().ok()) std::abort();
  session->Begin();
  Put("http2", "acknowledged", ServerBytes(session));
}

void WriteConfigs() {
  Put("config", "reference", PiecesOf({ConfigReference(), "", ""}));
  Put("config", "some",
      PiecesOf({"[sched]\nmode = \"histogram\"\nring_bytes = 1_048_576\n[upload]\nurl = 's3://b/p' # x\n",
                "127.0.0.1:0\n\n/run/x.sock\n", "host.period_ms=100", "log.level=debug"}));
  Put("config", "wrong", PiecesOf({"[sched]\nmod = 'x'\n", "", "sched.poll_ms=-1"}));
  Put("config", "types",
      PiecesOf({"a = 1979-05-27T07:32:00Z\nb = [1, {c = \"\"\"\nx\"\"\"}]\n[[t]]\nx = 0x7f\ny = nan\n", "", "x"}));
}

template <typename Request>
void PutRequest(uint8_t method, const std::string& name, const Request& request) {
  Put("rpc", name, std::string(1, static_cast<char>(method)) + request.SerializeAsString());
}

void WriteRequests() {
  PutRequest(0, "get_node", v1::GetNodeRequest());
  v1::ListJobsRequest list;
  list.set_limit(5);
  PutRequest(1, "list_jobs", list);
  v1::GetJobRequest get;
  get.set_job("train@1");
  PutRequest(2, "get_job", get);
  v1::GetSummaryRequest summary;
  summary.set_job("train");
  summary.set_begin_ns(900 * kNsPerSecond);
  summary.set_end_ns(930 * kNsPerSecond);
  PutRequest(3, "get_summary", summary);
  PutRequest(3, "get_summary_last", v1::GetSummaryRequest());
  v1::ListStepsRequest steps;
  steps.set_job("last");
  steps.set_all_ranks(true);
  PutRequest(4, "list_steps", steps);
  v1::GetSeriesRequest series;
  series.add_names("running");
  series.add_names("loss");
  PutRequest(5, "get_series", series);
  PutRequest(5, "get_series_all", v1::GetSeriesRequest());
  v1::ListTracksRequest tracks;
  tracks.set_job("1000.run.train-7");
  PutRequest(6, "list_tracks", tracks);
  for (const TableSpec& table : AllTables()) {
    v1::GetSlicesRequest slices;
    slices.set_table(std::string(table.name));
    slices.add_lanes(2);
    slices.set_limit(10);
    slices.set_newest_first(true);
    PutRequest(7, "get_slices_" + std::string(table.name), slices);
  }
  v1::StartJobRequest start;
  start.set_name("new");
  start.set_kind("slurm");
  start.set_pid(1);
  (*start.mutable_facts())["batch"] = "128";
  PutRequest(8, "start_job", start);
  v1::EndJobRequest end;
  end.set_reason("enough");
  PutRequest(9, "end_job", end);
  v1::DeleteJobRequest remove;
  remove.set_job("train");
  PutRequest(10, "delete_job", remove);
  PutRequest(11, "upload", v1::UploadRequest());
  PutRequest(12, "get_upload", v1::GetUploadRequest());
  PutRequest(13, "get_doctor", v1::GetDoctorRequest());
}

void PutRows(uint8_t kind, const std::string& name, const std::vector<std::string>& keys_and_values) {
  Put("store_value", name, std::string(1, static_cast<char>(kind)) + PiecesOf(keys_and_values));
}

void WriteStoreValues() {
  const RunId run{7};
  PutRows(0, "keys",
          {EncodeBlockKey({run, TableId::kSpan, 100, 0, 5}), "", EncodeRunKey(run, 9), "",
           EncodePositionKey(std::string(16, 's'), 3), "", EncodeMetaKey("job", "x"), "", "\xFF\xFF", ""});
  const Entity thread{{EntityKind::kThread, 100, 5, 101, ""}, {"main", {41, 1}, 3, {4096, 8192}}};
  RunTotals totals;
  totals.tables[TableId::kSpan] = {10, 1000};
  totals.loss[{1, 2, 3}] = {4, 5};
  store::v1::MinuteRollup minute;
  auto* series = minute.add_series();
  series->set_name("steps");
  series->set_entity(1);
  for (int i = 0; i < 60; ++i) series->add_values(i - 30);
  PutRows(1, "run",
          {EncodeRunKey(run, 2), "step", EntityMetaId({1}), EncodeEntity(thread), "t", EncodeTotals(totals), EncodeRunKey(run, 0),
           minute.SerializeAsString()});
  store::v1::JobRecord job;
  job.set_name("train");
  job.set_uid(1000);
  job.set_tenant("host");
  job.set_kind("run");
  job.set_id("train-7");
  job.set_state("running");
  job.add_runs(7);
  (*job.mutable_facts())["RANK"] = "0";
  store::v1::RunRecord record;
  record.set_run(7);
  record.set_job_key(
      "host\x1f"
      "1000.run.train-7");
  record.set_boot_id("boot");
  record.add_ranks()->set_rank(0);
  record.add_roots()->set_pid(1);
  PutRows(2, "jobs", {record.job_key(), job.SerializeAsString(), RunMetaId(run), record.SerializeAsString()});
  RingState state;
  state.tid = 41;
  state.last_ticks = 1'000;
  state.open = {{2, 900, 7, true}, {3, 950, 0, false}};
  state.tokens[9] = {{2, 990, 0, false}, 41};
  state.token_ends[11] = 995;
  PutRows(3, "positions", {RingRecords(), EncodeRingState(state), "\x01", EncodeRingName({1, 0, "step"})});
  store::v1::UploadPart part;
  part.set_state(store::v1::UploadPart::PLANNED);
  part.set_first_slot(100);
  part.set_last_slot(101);
  auto* file = part.add_files();
  file->set_table(static_cast<uint32_t>(TableId::kSpan));
  file->set_path("span/date=2026-01-01/part-0.parquet");
  file->set_rows(10);
  file->set_blocks(3);
  file->set_sha256(std::string(64, 'a'));
  auto* range = file->add_ranges();
  range->set_slot(100);
  range->set_first_seq(2);
  range->set_last_seq(4);
  PutRows(4, "uploads",
          {EncodeRunKey(run, 0), part.SerializeAsString(), EncodeRunKey(run, UINT32_MAX), part.SerializeAsString()});
}

void WriteSchedRecords() {
  stepscope_task_event task{};
  task.type = STEPSCOPE_TASK_NEW;
  task.klass = 2;
  task.tid = task.tgid = task.old_tid = 500;
  task.inner_tid = task.inner_tgid = 4;
  task.time_ns = task.process_start_ns = 1'000'000'000;
  std::memcpy(task.comm, "worker", 6);
  stepscope_slice slice{};
  slice.type = STEPSCOPE_SLICE;
  slice.on_ns = 2'000'000'000;
  slice.off_ns = 2'000'500'000;
  slice.wait_ns = 30'000;
  slice.tid = 500;
  slice.waker = 501;
  slice.waker_kind = STEPSCOPE_WAKER_TASK;
  slice.syscall = 202;
  slice.flags = STEPSCOPE_SLICE_FIRST;
  stepscope_wait wait{};
  wait.type = STEPSCOPE_WAIT;
  wait.klass = 2;
  wait.tid = 500;
  wait.start_ns = 1'999'970'000;
  wait.time_ns = 2'000'000'000;
  wait.parts[0] = {600, 600, 20'000};
  wait.unknown_ns = 10'000;
  stepscope_task_exit exit{};
  exit.type = STEPSCOPE_TASK_EXIT;
  exit.klass = 2;
  exit.tid = exit.tgid = 500;
  exit.switches = 1;
  auto exec = task, rename = task;
  exec.type = STEPSCOPE_TASK_EXEC;
  exec.old_tid = 503;
  rename.type = STEPSCOPE_TASK_RENAME;
  Put("sched_record", "life",
      PiecesOf({BytesOf(task), BytesOf(wait), BytesOf(slice), BytesOf(rename), BytesOf(exec), BytesOf(exit)}));
  Put("sched_record", "strangers", PiecesOf({BytesOf(slice), BytesOf(wait), BytesOf(exit)}));
  Put("sched_record", "cut", PiecesOf({BytesOf(task), BytesOf(slice).substr(0, 40), BytesOf(wait).substr(0, 8)}));
}

std::string PerfRecord(uint32_t type, uint16_t misc, const std::string& body) {
  const uint32_t ids[] = {500, 501, 0x1000, 0, 3, 0};  // tgid, tid, time (64 bits), cpu, reserved
  const perf_event_header header{type, misc, static_cast<uint16_t>(sizeof(perf_event_header) + body.size() + sizeof(ids))};
  return BytesOf(header) + body + std::string(reinterpret_cast<const char*>(ids), sizeof(ids));
}

void WriteSwitchRecords() {
  const std::string ring =
      PerfRecord(PERF_RECORD_SWITCH, 0, "") + PerfRecord(PERF_RECORD_SWITCH, PERF_RECORD_MISC_SWITCH_OUT, "") +
      PerfRecord(PERF_RECORD_FORK, 0, std::string(24, '\5')) +
      PerfRecord(PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC, std::string("\1\0\0\0\1\0\0\0python\0\0", 16)) +
      PerfRecord(PERF_RECORD_LOST, 0, std::string(16, '\1')) + PerfRecord(PERF_RECORD_EXIT, 0, std::string(24, '\5'));
  const auto with_head = [&](size_t head, size_t tail) {
    return std::string{static_cast<char>(head), static_cast<char>(head >> 8), static_cast<char>(tail),
                       static_cast<char>(tail >> 8)} +
           ring;
  };
  Put("switch_record", "ring", with_head(ring.size(), 0));
  Put("switch_record", "wrapped", with_head(ring.size(), 200));
}

void WriteProcTexts() {
  Put("proc_text", "stat",
      "41 (a) R (b)) S 1 41 41 0 -1 4194304 100 0 2 0 7 3 0 0 20 0 4 0 5123 1000000 500 18446744073709551615 1 1 0 0 "
      "0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
  Put("proc_text", "cgroup",
      "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1b4ba3dc_ef20_4b4b_9f26_0c0c1e7d2f6a."
      "slice/cri-containerd-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope\n");
  Put("proc_text", "cgroup_slurm", "12:cpuset:/slurm/uid_1000/job_71/step_0/task_3\n1:name=systemd:/\n");
  Put("proc_text", "cpu_list", "0-3,8,10-11\n");
  Put("proc_text", "sched",
      "python (41, #threads: 4)\nse.sum_exec_runtime : 12345.678901\nnr_switches : 42\nnr_voluntary_switches : 40\n");
  Put("proc_text", "environment",
      "RANK=3\nWORLD_SIZE=8\nSM_CURRENT_HOST=algo-2\nSM_HOSTS=[\"algo-1\",\"algo-2\"]\nSLURM_JOB_ID=71\n"
      "TORCHELASTIC_RUN_ID=none\n");
}

}  // namespace
}  // namespace stepscope

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  stepscope::folder = argv[1];
  stepscope::WriteBlocks();
  stepscope::WriteRings();
  stepscope::WriteHellos();
  stepscope::WritePushRequests();
  stepscope::WriteHttp2();
  stepscope::WriteConfigs();
  stepscope::WriteRequests();
  stepscope::WriteStoreValues();
  stepscope::WriteSchedRecords();
  stepscope::WriteSwitchRecords();
  stepscope::WriteProcTexts();
  return 0;
}
