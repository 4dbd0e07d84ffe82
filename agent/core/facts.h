// SPDX-License-Identifier: Apache-2.0
// The facts of the hello: rank and scheduler names from the environment, an allow-list. Nothing else of the environment is ever
// read into a record or a message.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace stepscope::agent {

// Writes "KEY=value\0" for each listed variable that is set; a fact that does not fit is left out whole. Returns bytes written.
size_t CollectFacts(const char* const* environment, char* out, size_t capacity);

// The value of a variable, nullptr when unset. Reads the array as it is now; never setenv-safe, like getenv.
const char* EnvironmentValue(const char* const* environment, const char* key);

}  // namespace stepscope::agent
