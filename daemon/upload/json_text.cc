// SPDX-License-Identifier: Apache-2.0
#include "daemon/upload/json_text.h"

#include <fmt/format.h>

#include "base/valid_utf8.h"

namespace stepscope {

JsonText& JsonText::Open(std::string_view key, char bracket) {
  Key(key);
  text_ += bracket;
  return *this;
}

JsonText& JsonText::Shut(char bracket) {
  text_ += bracket;
  return *this;
}

JsonText& JsonText::Text(std::string_view key, std::string_view value) {
  Key(key);
  Quote(value);
  return *this;
}

JsonText& JsonText::Int(std::string_view key, int64_t value) {
  Key(key);
  text_ += fmt::format("{}", value);
  return *this;
}

void JsonText::Key(std::string_view key) {
  if (!text_.empty() && text_.back() != '{' && text_.back() != '[') text_ += ',';
  if (key.empty()) return;
  Quote(key);
  text_ += ':';
}

void JsonText::Quote(std::string_view value) {
  text_ += '"';
  for (const char c : ValidUtf8(value)) {
    if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      text_ += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      text_ += c;
    }
  }
  text_ += '"';
}

}  // namespace stepscope
