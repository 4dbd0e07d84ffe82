// SPDX-License-Identifier: Apache-2.0
#include "daemon/jobs/job_identity.h"

#include <charconv>

namespace stepscope {
namespace {

struct KindRule {
  const char* key;
  const char* kind;
  const char* attempt_key;
};
constexpr KindRule kRules[] = {
    {"STEPSCOPE_JOB", "run", ""},           {"SLURM_JOB_ID", "slurm", "SLURM_RESTART_COUNT"}, {"TORCHX_JOB_ID", "torchx", ""},
    {"TRAINING_JOB_NAME", "sagemaker", ""}, {"TORCHELASTIC_RUN_ID", "torchelastic", ""},
};

}  // namespace

std::optional<int32_t> IntFact(const Facts& facts, const std::string& key) {
  const auto it = facts.find(key);
  if (it == facts.end() || it->second.empty()) return std::nullopt;
  const std::string& text = it->second;
  int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::optional<JobIdentity> IdentityFromFacts(const Facts& facts) {
  for (const KindRule& rule : kRules) {
    const auto it = facts.find(rule.key);
    if (it == facts.end() || it->second.empty() || it->second == "none") continue;
    const auto attempt = static_cast<uint32_t>(IntFact(facts, rule.attempt_key).value_or(0));
    return JobIdentity{rule.kind, it->second, attempt};
  }
  return std::nullopt;
}

}  // namespace stepscope
