// SPDX-License-Identifier: Apache-2.0
// The scheduling programs without a collector above them: what the kernel side does for a process whose threads nobody prepared.
#include <gtest/gtest.h>

#include "daemon/collector/sched_programs.h"
#include "recorded_process.h"

namespace stepscope {
namespace {

constexpr uint8_t kClass = STEPSCOPE_CLASS_FIRST_JOB;

stepscope_sched_books SumOf(const SchedPrograms& programs) {
  stepscope_sched_books sum{};
  const auto cpus = programs.Books(kClass).value();
  for (const stepscope_sched_books& cpu : cpus) {
    sum.slices += cpu.slices;
    sum.slices_lost += cpu.slices_lost;
    sum.stateless += cpu.stateless;
  }
  return sum;
}

TEST(SchedPrograms, TurnsOfThreadsNobodyPreparedAreCountedAndPreparedOnesRecorded) {
  auto programs = SchedPrograms::Load({}, [](std::span<const std::byte>) {});
  if (!programs.ok()) GTEST_SKIP() << "needs CAP_BPF, CAP_PERFMON and kernel BTF: " << programs.status().message();
  ASSERT_TRUE((*programs)->Attach().ok());
  RecordedProcess process;
  ASSERT_EQ(process.Exec(), "ready");

  (*programs)->SetClass(process.pid(), kClass);
  ASSERT_EQ(process.Do("run 10"), "done");
  const stepscope_sched_books without = SumOf(**programs);
  EXPECT_GT(without.stateless, 0u);
  EXPECT_EQ(without.slices_lost, without.stateless);
  EXPECT_EQ(without.slices, 0u);

  const absl::Status prepared = (*programs)->PrepareThreads(process.pid());
  ASSERT_TRUE(prepared.ok()) << prepared;
  RecordedProcess::Books(process.pid());  // all asleep: no turn ends between the two sums
  const stepscope_sched_books before = SumOf(**programs);
  ASSERT_EQ(process.Do("run 10"), "done");
  RecordedProcess::Books(process.pid());
  const stepscope_sched_books with = SumOf(**programs);
  EXPECT_EQ(with.slices_lost, before.slices_lost);
  EXPECT_GT(with.slices, before.slices);
}

}  // namespace
}  // namespace stepscope
