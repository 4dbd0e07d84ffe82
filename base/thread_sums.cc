// SPDX-License-Identifier: Apache-2.0
#include "base/thread_sums.h"

#include <fmt/format.h>

#include <charconv>

#include "base/proc_stat.h"

namespace stepscope {
namespace {

template <typename Int>
bool TakeNumber(std::string_view& text, Int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < Int{}) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (!text.empty()) text.remove_prefix(1);
  return true;
}

}  // namespace

std::optional<ThreadSums> ParseThreadSums(std::string_view text) {
  ThreadSums sums;
  if (!TakeNumber(text, sums.running_ns) || !TakeNumber(text, sums.runnable_ns) || !TakeNumber(text, sums.turns))
    return std::nullopt;
  return sums;
}

std::optional<ThreadSums> ReadThreadSums(const std::string& proc, int32_t tgid, int32_t tid) {
  return ParseThreadSums(ReadProcFile(fmt::format("{}/{}/task/{}/schedstat", proc, tgid, tid)));
}

}  // namespace stepscope
