// SPDX-License-Identifier: Apache-2.0
// daemon.json: how clients of a private daemon find it. Written by rename when everything listens, removed at a clean stop; a
// reader checks pid and start_ticks, so one left behind by a killed daemon misleads nobody.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace stepscope {

struct DiscoveryFile {
  std::string grpc;  ///< host:port
  std::string http;
  std::string agent_socket;
  std::string version;
};

absl::Status WriteDiscovery(const std::string& directory, const DiscoveryFile& file);
void RemoveDiscovery(const std::string& directory);

}  // namespace stepscope
