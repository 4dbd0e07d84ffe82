// SPDX-License-Identifier: Apache-2.0
// Any bytes as a hello: refused with a reason or parsed, and then within the contract's limits.
#include <cstdint>
#include <cstdlib>

#include "daemon/ingest/hello_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto wanted = stepscope::HelloBytes(bytes);
  if (wanted.ok() && (*wanted < sizeof(stepscope_hello) || *wanted > STEPSCOPE_HELLO_MAX_BYTES)) std::abort();
  const auto hello = stepscope::ParseHello(bytes);
  if (hello.ok() && (!wanted.ok() || size != *wanted)) std::abort();
  if (!hello.ok() && hello.status().message().empty()) std::abort();
  return 0;
}
