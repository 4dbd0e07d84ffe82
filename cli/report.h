// SPDX-License-Identifier: Apache-2.0
// What a report is made of, and its two forms: text for people, stepscope.report.v1 (docs/formats/report.v1.schema.json) for
// programs.
#pragma once

#include <string>

#include "stepscope/v1/query.pb.h"

namespace stepscope::cli {

struct Report {
  v1::Summary summary;
  v1::ListStepsResponse steps;
};

std::string RenderText(const Report& report);
std::string RenderJson(const Report& report);

}  // namespace stepscope::cli
