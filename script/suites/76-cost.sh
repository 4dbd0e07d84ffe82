# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
SUITE="what a call, a row and a job cost, in instructions, bytes and ratios"
Available() { HasFiles 'tests/bench/cost/test_*.py'; }
Run() {
  LoadToolchain --torch
  script/build release
  Pytest tests/bench/cost
}
