// SPDX-License-Identifier: Apache-2.0
#include "daemon/rpc/occupant_summary.h"

#include <algorithm>
#include <vector>

#include "base/valid_utf8.h"

namespace stepscope {
namespace {

constexpr size_t kMostOccupants = 8;

void FillOne(const RpcParts& parts, RunId run, const OccupantKey& key, int64_t ns, v1::OccupantSummary* occupant) {
  occupant->set_name(ValidUtf8(parts.dictionary->Name(run, NameId{static_cast<uint32_t>(key.name)})));
  occupant->set_pid(static_cast<int32_t>(key.process));
  occupant->set_class_(OccupantClassText(key.klass));
  occupant->set_ns(ns);
}

}  // namespace

void FillOccupants(const RpcParts& parts, RunId run, const CpuOccupants& occupants, const LaneFacts& lanes,
                   std::map<ProcessKey, v1::ProcessSummary>* processes) {
  std::map<ProcessKey, std::map<OccupantKey, int64_t>> of_process;
  for (const auto& [key, ns] : occupants.ns()) {
    OccupantKey without_waiter = key;
    without_waiter.waiter_lane = 0;
    of_process[lanes.Of(key.waiter_lane).process][without_waiter] += ns;
  }
  for (auto& [process, summary] : *processes) {
    const auto& held = of_process[process];
    std::vector<std::pair<OccupantKey, int64_t>> sorted(held.begin(), held.end());
    std::sort(sorted.begin(), sorted.end(),
              [](const auto& a, const auto& b) { return std::pair(-a.second, a.first) < std::pair(-b.second, b.first); });
    int64_t rest_ns = 0;
    for (size_t i = 0; i < sorted.size(); ++i) {
      if (i < kMostOccupants)
        FillOne(parts, run, sorted[i].first, sorted[i].second, summary.add_occupants());
      else
        rest_ns += sorted[i].second;
    }
    if (rest_ns == 0) continue;
    v1::OccupantSummary* rest = summary.add_occupants();
    rest->set_class_("more");
    rest->set_ns(rest_ns);
  }
}

}  // namespace stepscope
