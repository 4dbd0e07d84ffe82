# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
SUITE="the agent library inside somebody else's process"
Available() { HasFiles 'tests/guest/test_*.py'; }
Run() {
  LoadToolchain --torch
  [[ $STEPSCOPE_FULL = 0 ]] || LoadToolchain --torch --full
  script/build release
  Pytest tests/guest
}
