// SPDX-License-Identifier: Apache-2.0
#include "base/proc_cgroup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepscope {
namespace {

testing::Matcher<ProcCgroup> Group(std::string_view controllers, std::string_view path) {
  return testing::AllOf(testing::Field(&ProcCgroup::controllers, controllers), testing::Field(&ProcCgroup::path, path));
}

TEST(ProcCgroup, HasALineForEachHierarchy) {
  EXPECT_THAT(ParseProcCgroup("12:cpu,cpuacct:/slurm/job_7\n1:name=systemd:/a.service\n0::/a.service/b:c\n"),
              testing::ElementsAre(Group("cpu,cpuacct", "/slurm/job_7"), Group("name=systemd", "/a.service"),
                                   Group("", "/a.service/b:c")));
}

TEST(ProcCgroup, WhatIsNoLineOfItIsLeftOut) {
  EXPECT_THAT(ParseProcCgroup("\n0\n0:\n0::\n:cpu:/x\nx::/x\n3x::/x\n0::/cut"), testing::ElementsAre(Group("", "/cut")));
  EXPECT_THAT(ParseProcCgroup(""), testing::IsEmpty());
}

}  // namespace
}  // namespace stepscope
