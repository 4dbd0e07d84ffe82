// SPDX-License-Identifier: Apache-2.0
// The service manager's socket (NOTIFY_SOCKET, sd_notify(3)): states it hears of, descriptors it keeps (sd_listen_fds(3)).
#pragma once

#include <memory>
#include <string>

#include "daemon/fd_store.h"

namespace stepscope {

/// Tells systemd "READY=1", "RELOADING=1", "STOPPING=1" or "WATCHDOG=1"; does nothing where there is no NOTIFY_SOCKET. False when
/// there is one that took nothing for a second.
bool NotifyServiceManager(const std::string& state);

/// The service manager's store of descriptors; null where there is no NOTIFY_SOCKET. Reads and removes LISTEN_PID, LISTEN_FDS and
/// LISTEN_FDNAMES: call before the first thread.
std::unique_ptr<FdStore> ServiceFdStore();

}  // namespace stepscope
