// SPDX-License-Identifier: Apache-2.0
// Words, lines and counts of the text that the kernel writes in /proc and /sys. Nothing here believes half of something: a line
// without its newline is cut, and a count is digits from end to end or it is none.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace stepscope {

constexpr std::string_view kBlanks = " \t";

/// Takes the next whole line, without its newline; nullopt at the end.
inline std::optional<std::string_view> TakeLine(std::string_view& text) {
  const size_t end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return line;
}

/// Takes the next word; empty at the end.
inline std::string_view TakeWord(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(kBlanks));
  line.remove_prefix(word.size());
  return word;
}

inline std::optional<uint64_t> ParseCount(std::string_view word) {
  uint64_t count = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), count);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return count;
}

}  // namespace stepscope
