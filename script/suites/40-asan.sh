# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
# A test that cannot run under a sanitizer carries the ctest label no_sanitizer.
SUITE="ctest under AddressSanitizer and UndefinedBehaviorSanitizer"
Available() { [[ -f CMakeLists.txt ]]; }
Run() { BuildAndCtest asan no_sanitizer; }
