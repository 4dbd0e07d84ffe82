// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/sysfs_values.h"

#include <algorithm>
#include <filesystem>

#include "base/proc_stat.h"
#include "daemon/collector/host/text_columns.h"

namespace stepscope {
namespace {

constexpr size_t kMostLineBytes = 4096;
constexpr size_t kMostNameBytes = 64;

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

}  // namespace

std::optional<uint64_t> ReadCount(const std::string& path) { return ParseCount(Trimmed(ReadProcFile(path, kMostLineBytes))); }

std::string ReadLine(const std::string& path) {
  const std::string text = ReadProcFile(path, kMostLineBytes);
  return std::string(Trimmed(std::string_view(text).substr(0, text.find('\n'))));
}

std::vector<std::string> ListNames(const std::string& path, size_t most) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename());
  }
  std::ranges::sort(names);
  if (names.size() > most) names.resize(most);
  return names;
}

std::optional<std::string> MetricWord(std::string_view name) {
  if (name.empty() || name.size() > kMostNameBytes) return std::nullopt;
  std::string word;
  for (const char c : name) {
    const bool is_upper = c >= 'A' && c <= 'Z';
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    if (!is_upper && !is_plain) return std::nullopt;
    word += is_upper ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return word;
}

}  // namespace stepscope
