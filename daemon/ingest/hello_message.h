// SPDX-License-Identifier: Apache-2.0
// The hello of an agent (contract/hello.h) as bytes from a stranger: how many there must be, and what they say once checked.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "contract/hello.h"

namespace stepscope {

struct Hello {
  stepscope_hello message{};
  std::map<std::string, std::string> facts;
  std::string session() const { return {reinterpret_cast<const char*>(message.session), sizeof(message.session)}; }
  std::string parent() const { return {reinterpret_cast<const char*>(message.parent_session), sizeof(message.parent_session)}; }
};

/// Bytes of the whole message once its first sizeof(stepscope_hello) bytes are there. INVALID_ARGUMENT names what is wrong:
/// magic, version, a size below version 1's or above STEPSCOPE_HELLO_MAX_BYTES.
absl::StatusOr<size_t> HelloBytes(std::span<const std::byte> front);

/// The whole message, checked. Facts that are not KEY=value are ignored.
absl::StatusOr<Hello> ParseHello(std::span<const std::byte> bytes);

/// The answer: header and positions as they go on the socket.
std::string EncodeHelloReply(stepscope_hello_status status, const std::string& nonce,
                             const std::vector<stepscope_hello_position>& positions);

}  // namespace stepscope
