// SPDX-License-Identifier: Apache-2.0
#include "daemon/discovery.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/status.h"
#include "daemon/jobs/job_table.h"

namespace stepscope {
namespace {

std::string PathIn(const std::string& directory) { return directory + "/daemon.json"; }

/// Only what can occur in paths and addresses needs escaping.
std::string JsonString(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace

absl::Status WriteDiscovery(const std::string& directory, const DiscoveryFile& file) {
  STEPSCOPE_ASSIGN_OR_RETURN(const int64_t start_ticks, ReadStartTicks(Pid{getpid()}));
  const std::string text = fmt::format(
      "{{\"pid\": {}, \"start_ticks\": {}, \"grpc\": {}, \"http\": {}, \"agent_socket\": {}, \"version\": {}}}\n", getpid(),
      start_ticks, JsonString(file.grpc), JsonString(file.http), JsonString(file.agent_socket), JsonString(file.version));
  const std::string draft = PathIn(directory) + ".new";
  {
    std::ofstream out(draft, std::ios::trunc);
    out << text;
    if (!out.flush()) return ErrnoStatus(errno, fmt::format("write({})", draft), "give another --data-dir");
  }
  if (rename(draft.c_str(), PathIn(directory).c_str()) != 0) return ErrnoStatus(errno, fmt::format("rename({})", draft));
  return absl::OkStatus();
}

void RemoveDiscovery(const std::string& directory) {
  std::error_code ignored;  // a directory deleted under us holds nothing to remove
  std::filesystem::remove(PathIn(directory), ignored);
}

}  // namespace stepscope
