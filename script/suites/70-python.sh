# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
SUITE="the Python package, the golden files, the agent library as built"
Available() { HasFiles 'tests/python/test_*.py' || HasFiles 'tests/golden/test_*.py'; }
Run() {
  local folder folders=()
  for folder in tests/python tests/golden tests/binary; do
    if HasFiles "$folder/test_*.py"; then folders+=("$folder"); fi
  done
  LoadToolchain --torch
  script/build release
  Pytest "${folders[@]}"
}
