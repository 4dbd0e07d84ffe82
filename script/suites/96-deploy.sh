# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
SUITE="the container image, built and run by podman and runc (only with --full)"
Available() { [[ $STEPSCOPE_FULL = 1 ]] && HasFiles 'tests/deploy/test_*.py'; }
Run() {
  LoadToolchain --full
  script/build release
  Pytest tests/deploy
}
