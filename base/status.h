// SPDX-License-Identifier: Apache-2.0
// Status macros over absl::Status, and the one way to turn an errno into a Status.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

/// Returns the status of `expr` from the enclosing function unless it is OK.
#define STEPSCOPE_RETURN_IF_ERROR(expr)                           \
  do {                                                            \
    if (auto stepscope_status = (expr); !stepscope_status.ok()) { \
      return absl::Status(std::move(stepscope_status));           \
    }                                                             \
  } while (false)

#define STEPSCOPE_STATUS_CONCAT_INNER(a, b) a##b
#define STEPSCOPE_STATUS_CONCAT(a, b) STEPSCOPE_STATUS_CONCAT_INNER(a, b)
// NOLINTBEGIN(bugprone-macro-parentheses): `lhs` may be a declaration
/// `STEPSCOPE_ASSIGN_OR_RETURN(auto x, ComputeX());` unwraps a StatusOr or returns its error.
#define STEPSCOPE_ASSIGN_OR_RETURN(lhs, expr) \
  STEPSCOPE_ASSIGN_OR_RETURN_INNER(STEPSCOPE_STATUS_CONCAT(stepscope_or_, __LINE__), lhs, expr)
#define STEPSCOPE_ASSIGN_OR_RETURN_INNER(tmp, lhs, expr) \
  auto tmp = (expr);                                     \
  if (!tmp.ok()) return std::move(tmp).status();         \
  lhs = *std::move(tmp)
// NOLINTEND(bugprone-macro-parentheses)
namespace stepscope {

/// "open(/x): ENOENT: No such file or directory; <next_step>" with the canonical code of `error_number`.
absl::Status ErrnoStatus(int error_number, std::string_view what, std::string_view next_step = {});

}  // namespace stepscope
