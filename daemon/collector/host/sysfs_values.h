// SPDX-License-Identifier: Apache-2.0
// Reading a tree where each file is one value (sysfs), for the sources that walk device counters. Files and directories may
// vanish or be locked at any time: that is no value and an empty list. Nothing is ever opened for writing: a write to a
// counter of some drivers clears it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stepscope {

/// The one count in a file, with or without a newline behind it.
std::optional<uint64_t> ReadCount(const std::string& path);

/// First line of a file, up to 4 KiB, without blanks at its ends; empty when there is none.
std::string ReadLine(const std::string& path);

/// Names in a directory in their order, at most `most` of them.
std::vector<std::string> ListNames(const std::string& path, size_t most);

/// `name` as part of a metric's name: lower case letters, digits and underscores; nullopt when it cannot be one.
std::optional<std::string> MetricWord(std::string_view name);

}  // namespace stepscope
