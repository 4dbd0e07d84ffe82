// SPDX-License-Identifier: Apache-2.0
#include "analysis/cpu_occupants.h"

namespace stepscope {

void CpuOccupants::Add(const Batch& batch) {
  const auto& c = batch.columns;
  for (size_t row = 0; row < batch.rows(); ++row) {
    const NodeTime start{c[wait_column::kStart][row]};
    if (start < window_.begin || start >= window_.end) continue;
    const OccupantKey key{batch.lane[row], static_cast<OccupantClass>(c[wait_column::kOccupantClass][row]),
                          c[wait_column::kOccupantProcess][row], c[wait_column::kOccupantName][row]};
    ns_[key] += c[wait_column::kPart][row];
  }
}

const char* OccupantClassText(OccupantClass klass) {
  switch (klass) {
    case OccupantClass::kUnknown:
      return "unknown";
    case OccupantClass::kOthers:
      return "others";
    case OccupantClass::kIdle:
      return "idle";
    case OccupantClass::kSameJob:
      return "same job";
    case OccupantClass::kKernel:
      return "kernel";
    case OccupantClass::kSameUser:
      return "same user";
    case OccupantClass::kOtherJob:
      return "other job";
    case OccupantClass::kOtherUser:
      return "other user";
    case OccupantClass::kGone:
      return "ended";
  }
  return "unknown";
}

}  // namespace stepscope
