// SPDX-License-Identifier: Apache-2.0
// Names come from users and the kernel as bytes; a protobuf string field must be UTF-8 or the client refuses the whole answer.
#pragma once

#include <string>
#include <string_view>

namespace stepscope {

/// `text` with every byte that is not part of a well-formed UTF-8 sequence replaced by U+FFFD.
std::string ValidUtf8(std::string_view text);

}  // namespace stepscope
