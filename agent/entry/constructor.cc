// SPDX-License-Identifier: Apache-2.0
// The library's one constructor: arms the fork guard. It opens nothing and starts nothing; the first record does.
#include "agent/core/session.h"

__attribute__((constructor)) static void PrepareAgent() { stepscope::agent::g_session.Prepare(); }
