# SPDX-License-Identifier: Apache-2.0
"""Every way a process can end: status and output are what they are without us, and what it annotated before is stored."""

import os
import pathlib
import signal
import sys

import pytest
from recorded_twice import PROGRAMS

PYTHON_ENDS = pathlib.Path(__file__).parent / "programs" / "python_ends.py"
# Route: exit status, and what is on standard output.
ROUTES = {
    "return": (23, b"exit handler\nbuffered"),
    "exit": (23, b"exit handler\nbuffered"),
    "_exit": (23, b""),
    "quick_exit": (23, b"quick exit handler\n"),
    "abort": (-signal.SIGABRT, b""),
    "sigkill": (-signal.SIGKILL, b""),
    "sigsegv": (-signal.SIGSEGV, b""),
    "sigterm": (-signal.SIGTERM, b""),
    "sigint": (-signal.SIGINT, b""),
    "pthread_exit": (0, b"exit handler\nbuffered"),
    "pthread_exit_in_chroot": (0, b"exit handler\nbuffered"),  # without /proc
    "main_exits_unseen_by_libc": (0, b""),
    "exec": (0, b"executed\n"),
    "exit_in_atexit": (24, b"exit handler\nbuffered"),
    "exit_in_thread": (23, b"exit handler\nbuffered"),
    "open_spans": (23, b"exit handler\nbuffered"),
}
PYTHON_ROUTES = {"os._exit": 23, "sys.exit": 24, "uncaught": 1, "sigterm": -signal.SIGTERM, "fork": 25, "end": 0}


@pytest.mark.parametrize("route", ROUTES)
def test_a_process_ends_as_it_would_alone(recorder, route):
    outcome, ledger = recorder.run_twice(PROGRAMS / "exits", route)
    assert (outcome.status, outcome.stdout) == ROUTES[route]
    stored, _ = recorder.check_books(ledger)
    assert stored >= 50


@pytest.mark.parametrize("route", ROUTES)
def test_a_process_whose_sender_is_busy_with_a_stopped_daemon_ends_without_waiting_for_it(recorder, route):
    daemon = recorder.daemon.process.pid
    try:
        outcome, ledger = recorder.run_twice(
            PROGRAMS / "exits", route, recorded_env={"STOPPED_PID": str(daemon)}, timeout=20
        )
    finally:
        os.kill(daemon, signal.SIGCONT)
    assert (outcome.status, outcome.stdout) == ROUTES[route]
    stored, lost = recorder.check_books(ledger)
    assert stored > 1000 and lost > 0


@pytest.mark.parametrize("route", PYTHON_ROUTES)
def test_a_python_program_with_threads_ends_as_it_would_alone(recorder, route):
    outcome, ledger = recorder.run_twice(sys.executable, PYTHON_ENDS, route)
    assert outcome.status == PYTHON_ROUTES[route]
    stored, _ = recorder.check_books(ledger)
    assert stored >= 20
