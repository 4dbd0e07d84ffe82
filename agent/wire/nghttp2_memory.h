// SPDX-License-Identifier: Apache-2.0
// The few host functions nghttp2 and nanopb were built against (malloc, stderr, __assert_fail …) are redefined to hidden ones of
// ours when they are linked into the agent (agent/link): memory from the arena of the connection, no output, and a failed
// assertion parks the sender thread instead of ending the host. In unit tests the libraries are linked as they come and this does
// nothing.
#pragma once

#include "agent/core/arena.h"

namespace stepscope::agent {

void UseArenaForNghttp2(Arena* arena);

}  // namespace stepscope::agent
