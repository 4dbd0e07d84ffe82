// SPDX-License-Identifier: Apache-2.0
// Utf8Text: text from another process as valid UTF-8, so it can travel in protobuf, Parquet and JSON.
#pragma once

#include <string>
#include <string_view>

namespace stepscope {

/// `bytes` with every invalid byte (overlong forms, surrogates and values above U+10FFFF too) replaced by U+FFFD.
std::string Utf8Text(std::string_view bytes);

}  // namespace stepscope
