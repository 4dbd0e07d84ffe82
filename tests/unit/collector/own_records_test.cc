// SPDX-License-Identifier: Apache-2.0
// Level `own` without a kernel: perf records to turns to rows, schedstat texts, and what a refusal is shown as.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>

#include <cstring>

#include "base/status.h"
#include "daemon/collector/own/own_rows.h"
#include "daemon/collector/own/slice_ladder.h"
#include "daemon/collector/own/switch_record.h"
#include "daemon/collector/own/switch_rings.h"

namespace stepscope {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// The bytes of one record as the kernel lays them out.
std::vector<std::byte> Record(uint32_t type, uint16_t misc, const std::string& body, uint32_t tid, uint64_t time_ns,
                              uint32_t cpu) {
  const uint32_t id[] = {500, tid, static_cast<uint32_t>(time_ns), static_cast<uint32_t>(time_ns >> 32), cpu, 0};
  const perf_event_header header{type, misc, static_cast<uint16_t>(sizeof(perf_event_header) + body.size() + sizeof(id))};
  std::vector<std::byte> bytes(header.size);
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + sizeof(header), body.data(), body.size());
  std::memcpy(bytes.data() + sizeof(header) + body.size(), id, sizeof(id));
  return bytes;
}

std::string Words(std::initializer_list<uint32_t> words) {
  std::string body;
  for (const uint32_t word : words) body.append(reinterpret_cast<const char*>(&word), sizeof(word));
  return body;
}

TEST(SwitchRecord, SaysHowAThreadLeftItsCpu) {
  const auto in = ParseSwitchRecord(Record(PERF_RECORD_SWITCH, 0, "", 501, 77, 3));
  ASSERT_TRUE(in);
  EXPECT_EQ(in->kind, SwitchKind::kIn);
  EXPECT_EQ(in->tgid, 500);
  EXPECT_EQ(in->tid, 501);
  EXPECT_EQ(in->time_ns, 77);
  EXPECT_EQ(in->cpu, 3);
  const uint16_t out = PERF_RECORD_MISC_SWITCH_OUT;
  EXPECT_EQ(ParseSwitchRecord(Record(PERF_RECORD_SWITCH, out, "", 501, 78, 3))->kind, SwitchKind::kOutBlocked);
  const uint16_t preempted = out | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT;
  EXPECT_EQ(ParseSwitchRecord(Record(PERF_RECORD_SWITCH, preempted, "", 501, 79, 3))->kind, SwitchKind::kOutRunnable);
}

TEST(SwitchRecord, NamesTheMakerOfAThreadAndANewProgram) {
  const auto fork = ParseSwitchRecord(Record(PERF_RECORD_FORK, 0, Words({510, 500, 511, 501, 5, 0}), 501, 5, 0));
  ASSERT_TRUE(fork);
  EXPECT_EQ(fork->kind, SwitchKind::kFork);
  EXPECT_EQ(fork->tgid, 510);
  EXPECT_EQ(fork->tid, 511);
  EXPECT_EQ(fork->parent_tgid, 500);
  EXPECT_EQ(fork->parent_tid, 501);
  const std::string name("python3\0", 8);
  const auto exec = ParseSwitchRecord(Record(PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC, Words({510, 510}) + name, 510, 6, 0));
  ASSERT_TRUE(exec);
  EXPECT_EQ(exec->kind, SwitchKind::kExec);
  EXPECT_EQ(exec->comm, "python3");
}

TEST(SwitchRecord, RefusesWhatIsCutAtEveryLength) {
  const auto whole = Record(PERF_RECORD_FORK, 0, Words({510, 500, 511, 501, 5, 0}), 501, 5, 0);
  for (size_t size = 0; size < whole.size(); ++size) {
    std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(ParseSwitchRecord(cut)) << size << " bytes";
    if (size < sizeof(perf_event_header)) continue;
    const auto claimed = static_cast<uint16_t>(size);  // a size that fits, of a body that does not
    std::memcpy(cut.data() + offsetof(perf_event_header, size), &claimed, sizeof(claimed));
    EXPECT_FALSE(ParseSwitchRecord(cut)) << size << " bytes, claimed";
  }
}

// A ring in memory: a control page and one page of data.
class Ring {
 public:
  Ring() : bytes_(2 * page_) { std::memset(bytes_.data(), 0, bytes_.size()); }
  void Put(std::span<const std::byte> record) {
    for (const std::byte b : record) bytes_[page_ + (control()->data_head++ % page_)] = b;
  }
  perf_event_mmap_page* control() { return reinterpret_cast<perf_event_mmap_page*>(bytes_.data()); }
  SwitchRing Reader() { return SwitchRing(bytes_.data(), page_); }

 private:
  size_t page_ = static_cast<size_t>(getpagesize());
  std::vector<std::byte> bytes_;
};

TEST(SwitchRing, ReadsRecordsThatWrapAroundItsEnd) {
  Ring ring;
  SwitchRing reader = ring.Reader();
  int64_t expected = 0;
  const std::string name("a-long-comm-name", 16);
  for (int round = 0; round < 500; ++round) {
    ring.Put(Record(PERF_RECORD_COMM, 0, Words({500, 501}) + name, 501, static_cast<uint64_t>(round), 0));
    EXPECT_TRUE(reader.Read([&](std::span<const std::byte> bytes) {
      const auto record = ParseSwitchRecord(bytes);
      ASSERT_TRUE(record);
      EXPECT_EQ(record->time_ns, expected++);
      EXPECT_EQ(record->comm, name);
    }));
  }
  EXPECT_EQ(expected, 500);
}

TEST(SwitchRing, DropsWhatHasAnImpossibleSizeAndGoesOn) {
  Ring ring;
  SwitchRing reader = ring.Reader();
  ring.Put(std::vector<std::byte>(32));  // size 0
  EXPECT_FALSE(reader.Read([](auto) { FAIL() << "it is no record"; }));
  ring.Put(Record(PERF_RECORD_SWITCH, 0, "", 501, 9, 0));
  int records = 0;
  EXPECT_TRUE(reader.Read([&](auto) { ++records; }));
  EXPECT_EQ(records, 1);
}

TEST(ThreadTurns, AfterAPreemptionTheWaitIsExactAndAfterASleepUnknown) {
  ThreadTurns turns({0}, /*is_new=*/true);
  turns.In({10}, 0);
  const auto first = turns.Out({30}, 0, /*is_runnable=*/true);
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->is_first);
  EXPECT_TRUE(first->ends_runnable);
  EXPECT_FALSE(first->wait_known);
  turns.In({35}, 1);
  const auto second = turns.Out({50}, 1, /*is_runnable=*/false);
  ASSERT_TRUE(second);
  EXPECT_TRUE(second->wait_known);
  EXPECT_EQ(second->wait_ns, 5);
  EXPECT_FALSE(second->is_first);
  turns.In({90}, 0);
  const auto third = turns.Exit({99}, 0);
  ASSERT_TRUE(third);
  EXPECT_FALSE(third->wait_known);
  EXPECT_EQ(third->wait_ns, 0);
  EXPECT_TRUE(third->ends_dead);
}

TEST(ThreadTurns, AThreadFoundOnACpuHasATurnSinceThen) {
  ThreadTurns turns({100}, /*is_new=*/false);
  const auto turn = turns.Out({130}, 2, false);
  ASSERT_TRUE(turn);
  EXPECT_TRUE(turn->began_before);
  EXPECT_EQ(turn->on.ns, 100);
  EXPECT_EQ(turn->off.ns, 130);
  EXPECT_FALSE(turns.Out({150}, 2, false)) << "only the first out may be without an in";
}

TEST(ThreadTurns, ATurnWithALostEndIsLeftOut) {
  ThreadTurns turns({0}, /*is_new=*/true);
  turns.In({10}, 0);
  turns.Lost(0);
  EXPECT_FALSE(turns.Out({500}, 0, true)) << "other turns may lie between";
  turns.In({510}, 0);
  turns.Lost(1);
  EXPECT_TRUE(turns.Out({520}, 0, false)) << "the other CPU lost nothing of this turn";
  turns.In({600}, 0);
  EXPECT_FALSE(turns.Out({610}, 1, false)) << "a turn stays on its CPU";
}

TEST(OwnRows, ASliceMarksWhatIsUnknown) {
  OwnTasks tasks;
  OwnProcess& process = tasks.AddProcess({{500}, 42}, RunId{7});
  OwnThread& thread = tasks.AddThread(process, 501, ThreadTurns({0}, true));
  OwnRows rows;
  rows.AddTurn(thread, {.on = {10}, .off = {30}, .is_first = true, .ends_runnable = true, .cpu = 3});
  rows.AddTurn(thread, {.on = {35}, .off = {50}, .wait_ns = 5, .wait_known = true, .cpu = 3});
  rows.AddSums(process, {.running_ns = 35, .runnable_ns = 5, .turns = 2}, {60});
  const std::vector<Batch> batches = rows.Take();
  ASSERT_EQ(batches.size(), 2u);
  const Batch& slices = batches[0];
  const int64_t first = slices.columns[slice_column::kState][0];
  const int64_t second = slices.columns[slice_column::kState][1];
  EXPECT_EQ(first, static_cast<int64_t>(SliceState::kRunnable) | kSliceFirst | kSliceOwnLevel | kSliceWaitUnknown);
  EXPECT_EQ(second, static_cast<int64_t>(SliceState::kBlocked) | kSliceOwnLevel);
  EXPECT_EQ(slices.columns[slice_column::kWait][1], 5);
  EXPECT_EQ(slices.columns[slice_column::kSeq][1], 0);
  EXPECT_EQ(slices.columns[slice_column::kSyscall][1], -1);
  EXPECT_EQ(slices.entities[slices.lane[0]], (EntityKey{EntityKind::kThread, 500, 42, 501, {}}));
  EXPECT_EQ(batches[1].names, (std::vector<std::string>{kRunningCounter, kRunnableCounter}));
  EXPECT_THAT(rows.Take(), IsEmpty());
}

TEST(ThreadSums, ReadsThreeNumbersOrNothing) {
  const auto sums = ParseThreadSums("123456789 42 7\n");
  ASSERT_TRUE(sums);
  EXPECT_EQ(sums->running_ns, 123456789);
  EXPECT_EQ(sums->runnable_ns, 42);
  EXPECT_EQ(sums->turns, 7u);
  for (const char* text : {"", "1", "1 2", "x 2 3", "-1 2 3"}) EXPECT_FALSE(ParseThreadSums(text)) << text;
}

TEST(OwnTasks, AProcessKeepsTheSumsOfItsEndedThreads) {
  OwnTasks tasks;
  OwnProcess& process = tasks.AddProcess({{500}, 42}, RunId{7});
  tasks.AddThread(process, 501, ThreadTurns({0}, true)).sums = {.running_ns = 10, .runnable_ns = 2, .turns = 1};
  tasks.AddThread(process, 502, ThreadTurns({0}, true)).sums = {.running_ns = 5, .runnable_ns = 1, .turns = 1};
  EXPECT_EQ(tasks.RemoveThread(501), nullptr);
  EXPECT_EQ(tasks.RemoveThread(502), &process) << "the last one";
  EXPECT_EQ(process.of_ended.running_ns, 15);
  EXPECT_EQ(process.of_ended.runnable_ns, 3);
}

TEST(SliceLadder, TakesARefusalApart) {
  const CollectorState state =
      DescribeFailure(ErrnoStatus(EPERM, "loading the programs (libbpf: a: b)", "give the daemon CAP_BPF and CAP_PERFMON"));
  EXPECT_EQ(state.failed_step, "loading the programs (libbpf: a: b)");
  EXPECT_EQ(state.error, "EPERM");
  EXPECT_EQ(state.next_step, "give the daemon CAP_BPF and CAP_PERFMON");
  EXPECT_THAT(state.reason, HasSubstr("EPERM"));
  const CollectorState without = DescribeFailure(absl::InvalidArgumentError("ring of 7 bytes: not a power of two; set 4096"));
  EXPECT_EQ(without.error, "");
  EXPECT_EQ(without.next_step, "set 4096");
}

}  // namespace
}  // namespace stepscope
