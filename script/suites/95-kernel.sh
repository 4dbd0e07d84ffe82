# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
SUITE="the oldest kernel we promise, Debian's 6.1, under qemu (only with --full)"
Available() { [[ $STEPSCOPE_FULL = 1 ]] && HasFiles 'tests/kernel/test_*.py'; }
Run() {
  LoadToolchain --full
  script/build release
  Pytest tests/kernel
}
