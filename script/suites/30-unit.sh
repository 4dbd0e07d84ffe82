# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
SUITE="everything ctest knows, release build"
Available() { [[ -f CMakeLists.txt ]]; }
Run() { BuildAndCtest release ""; }
