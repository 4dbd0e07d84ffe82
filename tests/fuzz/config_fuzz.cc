// SPDX-License-Identifier: Apache-2.0
// Any bytes as a configuration: refused with a reason that names where, or taken with values their keys allow. Input: pieces: the
// file, then values of the environment, one a key in the order asked for, then the text of each --set.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <list>
#include <string>

#include "daemon/config.h"
#include "tests/fuzz/pieces.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stepscope;
  static const int file = memfd_create("config", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  fuzz::Pieces pieces(data, size);
  const std::string_view toml = pieces.Next();
  fuzz::Check(ftruncate(file, 0) == 0 && pwrite(file, toml.data(), toml.size(), 0) == static_cast<ssize_t>(toml.size()));
  const std::string_view environment = pieces.Next();
  std::vector<std::string> overrides;
  while (!pieces.empty() && overrides.size() < 16) overrides.emplace_back(pieces.Next());
  std::list<std::string> values;
  size_t asked = 0;
  const auto get_env = [&](const char*) -> const char* {
    const size_t at = environment.find('\n', asked);
    if (at == std::string_view::npos) return nullptr;
    const std::string_view value = environment.substr(asked, at - asked);
    asked = at + 1;
    return value.empty() ? nullptr : values.emplace_back(value).c_str();
  };
  const auto config = LoadConfig(path, get_env, overrides);
  if (!config.ok()) {
    fuzz::Check(!config.status().message().empty());
    return 0;
  }
  fuzz::Check(config->sched_mode == "slices" || config->sched_mode == "histogram" || config->sched_mode == "off");
  fuzz::Check(config->sched_ring_bytes >= 0 && config->upload_part_bytes >= 0 && config->counters_period_ms >= 100);
  return 0;
}
