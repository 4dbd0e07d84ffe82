// SPDX-License-Identifier: Apache-2.0
// JsonText: the little JSON that manifests need, with 64-bit integers as numbers (protobuf's JSON makes them strings). Bytes that
// are not UTF-8 become U+FFFD.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stepscope {

class JsonText {
 public:
  JsonText& BeginObject(std::string_view key = {}) { return Open(key, '{'); }
  JsonText& EndObject() { return Shut('}'); }
  JsonText& BeginArray(std::string_view key = {}) { return Open(key, '['); }
  JsonText& EndArray() { return Shut(']'); }
  JsonText& Text(std::string_view key, std::string_view value);
  JsonText& Int(std::string_view key, int64_t value);
  const std::string& text() const { return text_; }

 private:
  JsonText& Open(std::string_view key, char bracket);
  JsonText& Shut(char bracket);
  void Key(std::string_view key);
  void Quote(std::string_view value);

  std::string text_;
};

}  // namespace stepscope
