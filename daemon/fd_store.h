// SPDX-License-Identifier: Apache-2.0
// FdStore: descriptors that outlive the daemon. The service manager keeps them while none runs and hands them to the next one
// (systemd: FileDescriptorStoreMax=), so that the ring files of recorded processes are not lost with it.
#pragma once

#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace stepscope {

struct KeptFd {
  std::string name;
  unique_fd fd;
};

/// Thread rule: any thread.
class FdStore {
 public:
  virtual ~FdStore() = default;
  /// What the daemon before left, once; later calls give nothing.
  virtual std::vector<KeptFd> Take() = 0;
  /// Keeps a duplicate of `fd` as `name`: 1 to 255 printable ASCII characters without ':'. False when it could not be handed
  /// over.
  virtual bool Keep(const std::string& name, int fd) = 0;
  /// Lets go of every descriptor kept under `name`.
  virtual void Remove(const std::string& name) = 0;
};

}  // namespace stepscope
