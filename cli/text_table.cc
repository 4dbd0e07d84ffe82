// SPDX-License-Identifier: Apache-2.0
#include "cli/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace stepscope::cli {
namespace {

/// Columns a terminal uses for UTF-8 text: code points, which is right for everything we print.
size_t Width(const std::string& text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](unsigned char c) { return (c & 0xC0) != 0x80; }));
}

std::string Padded(const std::string& text, size_t width, bool right) {
  const std::string space(width - std::min(width, Width(text)), ' ');
  return right ? space + text : text + space;
}

std::string Line(const std::vector<std::string>& cells, const std::vector<size_t>& widths, const std::vector<bool>& right) {
  std::string line = " ";
  for (size_t c = 0; c < widths.size(); ++c) line += ' ' + Padded(c < cells.size() ? cells[c] : "", widths[c], right[c]) + ' ';
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

}  // namespace

TextTable::TextTable(std::vector<std::string> titles) : titles_(std::move(titles)) {
  for (std::string& title : titles_) {
    right_.push_back(title.starts_with('>'));
    if (right_.back()) title.erase(0, 1);
  }
}

void TextTable::Add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = Printable(cell);
  rows_.push_back(std::move(cells));
}

std::string Printable(std::string_view text) {
  std::string printable;
  for (size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const auto next = at + 1 < text.size() ? static_cast<unsigned char>(text[at + 1]) : 0u;
    const bool is_c1 = byte == 0xC2 && next >= 0x80 && next < 0xA0;  // U+009B opens an escape like ESC [
    printable += byte < 0x20 || byte == 0x7F || is_c1 ? '?' : text[at];
    at += is_c1 ? 1 : 0;
  }
  return printable;
}

std::string Shortened(std::string_view text, size_t most) {
  if (Width(std::string(text)) <= most) return std::string(text);
  size_t bytes = 0;
  for (size_t characters = 0; characters + 1 < most; ++characters) {
    do ++bytes;
    while (bytes < text.size() && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80);
  }
  return std::string(text.substr(0, bytes)) + "…";
}

std::string TextTable::Render() const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < titles_.size(); ++c) {
    size_t width = Width(titles_[c]);
    for (const auto& row : rows_) width = std::max(width, c < row.size() ? Width(row[c]) : 0);
    widths.push_back(width);
  }
  std::string text = Line(titles_, widths, right_);
  for (const auto& row : rows_) text += Line(row, widths, right_);
  return text;
}

std::string Duration(int64_t ns) {
  const double value = static_cast<double>(ns);
  const double size = std::abs(value);
  if (size >= 1e9) return fmt::format("{:.3f} s", value / 1e9);
  if (size >= 1e6) return fmt::format("{:.1f} ms", value / 1e6);
  if (size >= 1e3) return fmt::format("{:.1f} µs", value / 1e3);
  return fmt::format("{} ns", ns);
}

std::string Bytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1000 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string Count(int64_t count) {
  if (count < 0) return "unknown";
  std::string digits = std::to_string(count);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

std::string Percent(double share) { return fmt::format("{:.1f} %", share * 100); }

}  // namespace stepscope::cli
