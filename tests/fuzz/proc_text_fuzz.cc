// SPDX-License-Identifier: Apache-2.0
// Any text as a file of /proc or /sys: parsed or refused. A process chooses its own name, so it chooses part of these.
#include <cstdint>
#include <string_view>

#include "base/proc_cgroup.h"
#include "base/proc_stat.h"
#include "base/thread_sums.h"
#include "base/valid_utf8.h"
#include "daemon/collector/host/cpu_list.h"
#include "daemon/jobs/cgroup_path.h"
#include "daemon/jobs/job_identity.h"
#include "daemon/jobs/rank_facts.h"
#include "tests/fuzz/pieces.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stepscope;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)ParseProcStat(text);
  (void)ParseThreadSums(text);
  (void)ParseProcCgroup(text);
  (void)ParseCgroups(text);
  fuzz::Check(ParseCpuList(text).size() <= 1 << 20);
  const std::string valid = ValidUtf8(text);
  fuzz::Check(ValidUtf8(valid) == valid);
  Facts facts;
  for (std::string_view left = text; !left.empty();) {
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(line.size() + 1, left.size()));
    const size_t equals = line.find('=');
    if (equals != std::string_view::npos) facts[std::string(line.substr(0, equals))] = line.substr(equals + 1);
  }
  (void)RankFromFacts(facts);
  (void)IdentityFromFacts(facts);
  return 0;
}
