# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
SUITE="kills, full disks, stepped clocks and lost power: nothing is lost silently or doubled"
Available() { HasFiles 'tests/faults/test_*.py'; }
Run() {
  LoadToolchain
  script/build release
  Pytest tests/faults
}
