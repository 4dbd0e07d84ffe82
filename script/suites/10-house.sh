# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
SUITE="scripts, licences, names, deployment files; --full: bootstrap in a bare Debian 12"
Available() { HasFiles 'tests/house/test_*.py'; }
Run() { Pytest tests/house; }
