# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
# Debian's gRPC and absl are not instrumented; what they make ThreadSanitizer say is listed in tests/tsan_suppressions.
SUITE="ctest under ThreadSanitizer"
Available() { [[ -f CMakeLists.txt ]]; }
Run() {
  local options=halt_on_error=1:die_after_fork=0
  [[ ! -f tests/tsan_suppressions ]] || options+=:suppressions=$ROOT/tests/tsan_suppressions
  TSAN_OPTIONS=$options BuildAndCtest tsan "no_sanitizer|no_tsan"
}
