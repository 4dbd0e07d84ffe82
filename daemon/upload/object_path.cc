// SPDX-License-Identifier: Apache-2.0
#include "daemon/upload/object_path.h"

#include <fmt/format.h>

namespace stepscope {
namespace {

/// File systems end a name at 255 bytes; "job=", uid, kind and the tag of a cut name need their share.
constexpr size_t kLongestComponent = 160;

bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

/// FNV-1a: stable over releases and machines.
uint32_t Tag(std::string_view text) {
  uint32_t hash = 2166136261u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  return hash;
}

}  // namespace

std::string PercentEncode(std::string_view text) {
  const bool only_dots = text.find_first_not_of('.') == std::string_view::npos;
  std::string encoded;
  for (const char c : text) {
    if (IsPlain(c) && !only_dots) {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<uint8_t>(c));
    }
  }
  if (encoded.size() <= kLongestComponent) return encoded;
  size_t cut = kLongestComponent;
  while (encoded[cut - 1] == '%' || encoded[cut - 2] == '%') --cut;  // not inside a %XX
  return fmt::format("{}~{:08x}", encoded.substr(0, cut), Tag(text));
}

ObjectPaths::ObjectPaths(const UploadRun& run)
    : job_(fmt::format("job={}.{}.{}/attempt={}", run.uid, PercentEncode(run.kind), PercentEncode(run.id), run.attempt)),
      stem_(fmt::format("{}-{}.{:08x}", PercentEncode(run.node), run.run.value,
                        Tag(fmt::format("{} {}", run.boot_id, run.start_wall.ns)))) {}

std::string ObjectPaths::Table(std::string_view table, uint32_t part) const {
  return fmt::format("v1/{}/{}/{}-{}.parquet", table, job_, stem_, part);
}
std::string ObjectPaths::PartManifest(uint32_t part) const {
  return fmt::format("v1/_jobs/{}/parts/{}-{}.json", job_, stem_, part);
}
std::string ObjectPaths::ClosingManifest() const { return fmt::format("v1/_jobs/{}/{}.json", job_, stem_); }

}  // namespace stepscope
