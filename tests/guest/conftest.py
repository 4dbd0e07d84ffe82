# SPDX-License-Identifier: Apache-2.0
"""The fixtures of tests/e2e (a daemon of the test's own), and what the daemon says of the records of one process."""

import importlib.util
import pathlib
import sys

E2E = pathlib.Path(__file__).resolve().parent.parent / "e2e"
sys.path.append(str(E2E))
_spec = importlib.util.spec_from_file_location("e2e_fixtures", E2E / "conftest.py")
e2e_fixtures = importlib.util.module_from_spec(_spec)
sys.modules["e2e_fixtures"] = e2e_fixtures
_spec.loader.exec_module(e2e_fixtures)

short_dir = e2e_fixtures.short_dir
make_daemon = e2e_fixtures.make_daemon
