# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
SUITE="clang-tidy over our own sources (only with --full)"
Available() { [[ $STEPSCOPE_FULL = 1 && -f CMakeLists.txt ]]; }
Run() {
  script/build asan
  Check "clang-tidy" run-clang-tidy-19 -quiet -p build-asan "^$ROOT/(base|contract|trace|storage|analysis|agent|daemon|cli)/"
}
