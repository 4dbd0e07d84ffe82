# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
SUITE="daemon, agent, store, S3 and real PyTorch training together"
Available() { HasFiles 'tests/e2e/test_*.py'; }
Run() {
  LoadToolchain --torch
  script/build release
  Pytest tests/e2e
}
