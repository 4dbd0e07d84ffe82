// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/hello_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/status.h"
#include "base/valid_utf8.h"

namespace stepscope {
namespace {

constexpr size_t kMaxFacts = 256;

stepscope_hello CopyHello(std::span<const std::byte> bytes) {
  stepscope_hello hello{};
  std::memcpy(&hello, bytes.data(), sizeof(hello));
  return hello;
}

std::map<std::string, std::string> ParseFacts(std::string_view text) {
  std::map<std::string, std::string> facts;
  while (!text.empty() && facts.size() < kMaxFacts) {
    const std::string_view fact = text.substr(0, text.find('\0'));
    text.remove_prefix(std::min(fact.size() + 1, text.size()));
    const size_t equals = fact.find('=');
    if (equals == 0 || equals == std::string_view::npos) continue;
    facts.emplace(ValidUtf8(fact.substr(0, equals)), ValidUtf8(fact.substr(equals + 1)));
  }
  return facts;
}

}  // namespace

absl::StatusOr<size_t> HelloBytes(std::span<const std::byte> front) {
  if (front.size() < sizeof(stepscope_hello)) return absl::InvalidArgumentError("hello is cut short");
  const stepscope_hello hello = CopyHello(front);
  if (hello.magic != STEPSCOPE_HELLO_MAGIC)
    return absl::InvalidArgumentError("hello does not begin with its magic; not a stepscope agent");
  if (hello.version == 0) return absl::InvalidArgumentError("hello of version 0");
  if (hello.size < sizeof(stepscope_hello)) {
    return absl::InvalidArgumentError(
        fmt::format("hello says its size is {}, less than {}", hello.size, sizeof(stepscope_hello)));
  }
  const uint64_t bytes = uint64_t{hello.size} + hello.facts_bytes;
  if (bytes > STEPSCOPE_HELLO_MAX_BYTES) {
    return absl::InvalidArgumentError(fmt::format("hello of {} bytes, more than {}", bytes, STEPSCOPE_HELLO_MAX_BYTES));
  }
  return static_cast<size_t>(bytes);
}

absl::StatusOr<Hello> ParseHello(std::span<const std::byte> bytes) {
  STEPSCOPE_ASSIGN_OR_RETURN(const size_t wanted, HelloBytes(bytes));
  if (bytes.size() != wanted) return absl::InvalidArgumentError(fmt::format("hello of {} bytes, not {}", bytes.size(), wanted));
  Hello hello;
  hello.message = CopyHello(bytes);
  if (hello.message.clock_kind < STEPSCOPE_CLOCK_TSC || hello.message.clock_kind > STEPSCOPE_CLOCK_CNTVCT) {
    return absl::InvalidArgumentError(
        fmt::format("hello names clock kind {}, which this release does not know", hello.message.clock_kind));
  }
  const auto facts = bytes.subspan(hello.message.size);
  hello.facts = ParseFacts({reinterpret_cast<const char*>(facts.data()), facts.size()});
  return hello;
}

std::string EncodeHelloReply(stepscope_hello_status status, const std::string& nonce,
                             const std::vector<stepscope_hello_position>& positions) {
  stepscope_hello_reply reply{};
  reply.magic = STEPSCOPE_HELLO_REPLY_MAGIC;
  reply.version = STEPSCOPE_HELLO_VERSION;
  reply.status = status;
  reply.position_count = static_cast<uint32_t>(positions.size());
  std::memcpy(reply.nonce, nonce.data(), std::min(nonce.size(), sizeof(reply.nonce)));
  std::string bytes(reinterpret_cast<const char*>(&reply), sizeof(reply));
  if (!positions.empty()) bytes.append(reinterpret_cast<const char*>(positions.data()), positions.size() * sizeof(positions[0]));
  return bytes;
}

}  // namespace stepscope
