# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
SUITE="processes that fork, execute, run into limits and end in every way: they notice nothing, nothing they recorded is lost"
Available() { HasFiles 'tests/lifecycle/test_*.py'; }
Run() {
  LoadToolchain
  script/build release
  Pytest tests/lifecycle
}
