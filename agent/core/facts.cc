// SPDX-License-Identifier: Apache-2.0
#include "agent/core/facts.h"

#include <string.h>

namespace stepscope::agent {
namespace {

constexpr size_t kMaxValueBytes = 512;

// What daemon/jobs/{job_identity,rank_facts}.cc read, and nothing else.
constexpr const char* kFacts[] = {
    // ours
    "STEPSCOPE_JOB",
    // torchrun, TorchX
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "GROUP_WORLD_SIZE", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCHX_JOB_ID",
    // Slurm
    "SLURM_JOB_ID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_NNODES", "SLURM_RESTART_COUNT",
    // Open MPI
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE",
    // SageMaker
    "TRAINING_JOB_NAME", "SM_CURRENT_HOST", "SM_HOSTS",
    // Kubernetes, Volcano
    "JOB_COMPLETION_INDEX", "VC_TASK_INDEX", "VK_TASK_INDEX"};

}  // namespace

const char* EnvironmentValue(const char* const* environment, const char* key) {
  const size_t key_bytes = strlen(key);
  if (environment == nullptr) return nullptr;
  for (; *environment != nullptr; ++environment) {
    const char* entry = *environment;
    size_t i = 0;
    while (i < key_bytes && entry[i] == key[i]) ++i;
    if (i == key_bytes && entry[i] == '=') return entry + i + 1;
  }
  return nullptr;
}

size_t CollectFacts(const char* const* environment, char* out, size_t capacity) {
  size_t written = 0;
  for (const char* key : kFacts) {
    const char* value = EnvironmentValue(environment, key);
    if (value == nullptr) continue;
    const size_t key_bytes = strlen(key);
    const size_t value_bytes = strlen(value);
    if (value_bytes > kMaxValueBytes || written + key_bytes + value_bytes + 2 > capacity) continue;
    memcpy(out + written, key, key_bytes);  // NOLINT(bugprone-not-null-terminated-result): '=' follows
    out[written + key_bytes] = '=';
    memcpy(out + written + key_bytes + 1, value, value_bytes + 1);
    written += key_bytes + value_bytes + 2;
  }
  return written;
}

}  // namespace stepscope::agent
