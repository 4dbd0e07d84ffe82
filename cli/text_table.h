// SPDX-License-Identifier: Apache-2.0
// Tables and quantities for people: columns aligned, numbers right, durations and sizes with their unit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stepscope::cli {

class TextTable {
 public:
  /// A leading '>' in a title aligns its column right.
  explicit TextTable(std::vector<std::string> titles);
  void Add(std::vector<std::string> cells);
  /// Lines indented by two spaces, without trailing spaces.
  std::string Render() const;

 private:
  std::vector<std::string> titles_;
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

/// Control characters, those of two bytes included, become '?': names come from other processes and must not reach the terminal
/// as escapes.
std::string Printable(std::string_view text);
/// The first `most` characters, the last of them "…" where something was cut.
std::string Shortened(std::string_view text, size_t most);
std::string Duration(int64_t ns);   ///< "1.234 s", "12.3 ms", "4.5 µs", "7 ns"
std::string Bytes(uint64_t bytes);  ///< "1.2 MB"
std::string Count(int64_t count);   ///< "12,345"; "unknown" for -1
std::string Percent(double share);  ///< 0.123 -> "12.3 %"

}  // namespace stepscope::cli
