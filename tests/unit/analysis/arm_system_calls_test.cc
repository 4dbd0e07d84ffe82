// SPDX-License-Identifier: Apache-2.0
// The arm64 column of the system call table against the generic table arm64 uses. The numbers are taken before
// anything else is included: other headers define the same names for the machine the test runs on.
#define __BITS_PER_LONG 64
#define __ARCH_WANT_NEW_STAT
#define __ARCH_WANT_SYS_CLONE3
#include <asm-generic/unistd.h>

#include "system_call_names.h"

namespace {

struct GenericCall {
  const char* name;
  long number;
};

#define STEPSCOPE_NUMBER(name) {#name, __NR_##name},
constexpr GenericCall kGenericCalls[] = {STEPSCOPE_SYSTEM_CALLS(STEPSCOPE_NUMBER)};
#undef STEPSCOPE_NUMBER

}  // namespace

#include <gtest/gtest.h>

#include <map>
#include <string_view>

#include "analysis/system_call.h"

namespace stepscope {
namespace {

TEST(SystemCalls, ArmNumbersAreTheGenericTables) {
  std::map<std::string_view, int64_t> generic;
  for (const GenericCall& call : kGenericCalls) generic[call.name] = call.number;
  for (const SystemCall& known : KnownSystemCalls()) {
    const auto expected = generic.find(known.name);
    if (expected == generic.end()) continue;
    EXPECT_EQ(known.arm, expected->second) << known.name;
  }
}

}  // namespace
}  // namespace stepscope
