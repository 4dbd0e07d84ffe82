// SPDX-License-Identifier: Apache-2.0
#include "analysis/loss_text.h"

#include <fmt/format.h>

#include <iterator>

#include "trace/schema.h"

namespace stepscope {
namespace {

template <size_t n>
std::string Pick(const char* const (&words)[n], int64_t value, const char* what) {
  const bool known = value >= 0 && value < static_cast<int64_t>(n) && words[value][0] != '\0';
  return known ? words[value] : fmt::format("{} {}", what, value);
}

constexpr const char* kStages[] = {"", "agent", "kernel", "ingest", "pipeline", "sampler", "store", "retention"};
constexpr const char* kReasons[] = {"",
                                    "ring full",
                                    "no ring",
                                    "daemon away",
                                    "malformed record",
                                    "no clock map",
                                    "name limit",
                                    "end without begin",
                                    "kernel ring full",
                                    "tick skipped",
                                    "rate limit",
                                    "not kept",
                                    "damaged block"};
constexpr const char* kDomains[] = {"user", "step", "loader", "optimizer", "framework", "mark", "window"};

static_assert(std::size(kStages) == static_cast<size_t>(LossStage::kRetention) + 1);
static_assert(std::size(kReasons) == static_cast<size_t>(LossReason::kDamaged) + 1);
static_assert(std::size(kDomains) == static_cast<size_t>(SpanDomain::kWindow) + 1);

}  // namespace

std::string LossStageText(int64_t stage) { return Pick(kStages, stage, "stage"); }
std::string LossReasonText(int64_t reason) { return Pick(kReasons, reason, "reason"); }
std::string SpanDomainText(int64_t domain) { return Pick(kDomains, domain, "domain"); }

std::string LossTableText(int64_t table) {
  if (table == 0) return "";
  const TableSpec* spec = FindTable(static_cast<TableId>(table));
  return spec != nullptr ? std::string(spec->name) : fmt::format("table {}", table);
}

}  // namespace stepscope
