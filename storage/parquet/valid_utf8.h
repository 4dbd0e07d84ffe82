// SPDX-License-Identifier: Apache-2.0
// ValidUtf8: names come from user programs and can be any bytes; Parquet strings and JSON must be UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace stepscope {

/// `text` with every byte that is not part of a valid UTF-8 sequence replaced by U+FFFD.
std::string ValidUtf8(std::string_view text);

}  // namespace stepscope
