// SPDX-License-Identifier: Apache-2.0
#include "daemon/jobs/job_identity.h"

#include <charconv>
#include <string_view>

namespace stepscope {
namespace {

std::optional<int32_t> IntFact(const Facts& facts, std::string_view key) {
  const auto it = facts.find(std::string(key));
  if (it == facts.end() || it->second.empty()) return std::nullopt;
  const std::string& text = it->second;
  int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

int32_t FirstInt(const Facts& facts, std::initializer_list<std::string_view> keys, int32_t otherwise) {
  for (const std::string_view key : keys) {
    if (const auto value = IntFact(facts, key)) return *value;
  }
  return otherwise;
}

struct KindRule {
  std::string_view key;
  std::string_view kind;
  std::string_view attempt_key;
};
constexpr KindRule kRules[] = {
    {"STEPSCOPE_JOB", "run", ""},           {"SLURM_JOB_ID", "slurm", "SLURM_RESTART_COUNT"}, {"TORCHX_JOB_ID", "torchx", ""},
    {"TRAINING_JOB_NAME", "sagemaker", ""}, {"TORCHELASTIC_RUN_ID", "torchelastic", ""},
};

}  // namespace

std::optional<JobIdentity> IdentityFromFacts(const Facts& facts) {
  for (const KindRule& rule : kRules) {
    const auto it = facts.find(std::string(rule.key));
    if (it == facts.end() || it->second.empty() || it->second == "none") continue;
    JobIdentity identity{std::string(rule.kind), it->second, 0};
    if (const auto attempt = IntFact(facts, rule.attempt_key)) identity.attempt = static_cast<uint32_t>(*attempt);
    return identity;
  }
  return std::nullopt;
}

RankFacts RankFromFacts(const Facts& facts) {
  RankFacts rank;
  rank.rank = FirstInt(facts, {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "JOB_COMPLETION_INDEX"}, -1);
  if (rank.rank < 0) return rank;
  rank.local_rank = FirstInt(facts, {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}, -1);
  rank.world_size = FirstInt(facts, {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"}, -1);
  rank.restart = FirstInt(facts, {"TORCHELASTIC_RESTART_COUNT"}, 0);
  return rank;
}

}  // namespace stepscope
