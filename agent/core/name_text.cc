// SPDX-License-Identifier: Apache-2.0
#include "agent/core/name_text.h"

#include <string.h>

namespace stepscope::agent {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";  // U+FFFD
constexpr size_t kReplacementBytes = 3;
constexpr size_t kHashSuffixBytes = 17;  // "~" and 16 hexadecimal digits
constexpr size_t kMaxDigits = 18;

bool IsContinuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

// Bytes of the valid character at text[0], 0 if there is none (Unicode 15, table 3-7).
size_t CharacterBytes(const unsigned char* text, size_t bytes) {
  unsigned char first = text[0];
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (bytes < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (!IsContinuation(text[i])) return 0;
  }
  unsigned char second = text[1];
  if (first == 0xE0 && second < 0xA0) return 0;  // overlong
  if (first == 0xED && second > 0x9F) return 0;  // surrogate
  if (first == 0xF0 && second < 0x90) return 0;  // overlong
  if (first == 0xF4 && second > 0x8F) return 0;  // beyond U+10FFFF
  return length;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsSeparator(char c) { return c == '_' || c == '-' || c == ':' || c == '#' || c == '/' || c == '.' || c == ' '; }

char OpeningBracket(char closing) { return closing == ']' ? '[' : closing == ')' ? '(' : '\0'; }

void AppendHash(uint64_t hash, char* out) {
  out[0] = '~';
  for (int i = 0; i < 16; ++i) out[1 + i] = "0123456789abcdef"[(hash >> (60 - 4 * i)) & 15];
}

}  // namespace

uint64_t HashBytes(const char* bytes, size_t count, uint64_t seed) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15ull;
  uint64_t hash = (seed + count) * kMultiplier;
  while (count != 0) {
    uint64_t word = 0;
    size_t step = count < sizeof(word) ? count : sizeof(word);
    memcpy(&word, bytes, step);
    hash = (hash ^ word) * kMultiplier;
    hash ^= hash >> 29;
    bytes += step;
    count -= step;
  }
  hash *= kMultiplier;
  return hash ^ (hash >> 32);
}

RepairedText RepairUtf8(const char* text, size_t bytes, char* out, size_t capacity) {
  size_t read = 0;
  size_t written = 0;
  while (read < bytes) {
    size_t length = CharacterBytes(reinterpret_cast<const unsigned char*>(text) + read, bytes - read);
    const char* from = length != 0 ? text + read : kReplacement;
    size_t out_bytes = length != 0 ? length : kReplacementBytes;
    if (written + out_bytes > capacity) break;
    memcpy(out + written, from, out_bytes);
    written += out_bytes;
    read += length != 0 ? length : 1;
  }
  return {written, read};
}

SplitNumber SplitTrailingNumber(const char* text, size_t bytes) {
  const SplitNumber whole{bytes, false, 0};
  char opening = bytes != 0 ? OpeningBracket(text[bytes - 1]) : '\0';
  size_t digits_end = opening != '\0' ? bytes - 1 : bytes;
  size_t digits_begin = digits_end;
  while (digits_begin != 0 && IsDigit(text[digits_begin - 1]) && digits_end - digits_begin <= kMaxDigits) --digits_begin;
  size_t digits = digits_end - digits_begin;
  if (digits == 0 || digits > kMaxDigits || digits_begin < 2) return whole;
  if (digits > 1 && text[digits_begin] == '0') return whole;
  char before = text[digits_begin - 1];
  if (opening != '\0' ? before != opening : !IsSeparator(before)) return whole;
  int64_t number = 0;
  for (size_t i = digits_begin; i < digits_end; ++i) number = number * 10 + (text[i] - '0');
  return {digits_begin - 1, true, number};
}

void MakeNameText(const char* base, size_t bytes, NameText* out) {
  RepairedText repaired = RepairUtf8(base, bytes, out->text, sizeof(out->text));
  out->cut = repaired.consumed < bytes;
  out->bytes = repaired.bytes;
  if (!out->cut) return;
  repaired = RepairUtf8(base, bytes, out->text, sizeof(out->text) - kHashSuffixBytes);
  AppendHash(HashBytes(base, bytes, 0), out->text + repaired.bytes);
  out->bytes = repaired.bytes + kHashSuffixBytes;
}

}  // namespace stepscope::agent
