// SPDX-License-Identifier: Apache-2.0
// The words for the numbers in loss and span rows, as every view prints them. A number of a newer release reads "stage 42".
#pragma once

#include <cstdint>
#include <string>

namespace stepscope {

std::string LossStageText(int64_t stage);    ///< LossStage: "agent", "kernel", …
std::string LossReasonText(int64_t reason);  ///< LossReason: "ring full", …
std::string LossTableText(int64_t table);    ///< TableId: "span", …; 0 = "" (unknown)
std::string SpanDomainText(int64_t domain);  ///< SpanDomain: "user", "step", …

}  // namespace stepscope
