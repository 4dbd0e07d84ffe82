# SPDX-License-Identifier: Apache-2.0
"""Threads that come and go faster than rings do, and programs that replace themselves."""

import pytest
from recorded_twice import FULL, PROGRAMS

THREADS = 20000 if FULL else 2000
IMAGES = 100 if FULL else 10


@pytest.mark.parametrize(("at_once", "annotations"), [(4, 50), (64, 50), (400, 5)])
def test_threads_end_while_others_start(recorder, at_once, annotations):
    """Rings are taken over from thread to thread; with 400 at once there are fewer rings than threads."""
    outcome, ledger = recorder.run_twice(PROGRAMS / "threads", THREADS, at_once, annotations)
    assert (outcome.status, outcome.stdout.decode()) == (0, f"{THREADS} threads\n")
    stored, _ = recorder.check_books(ledger)
    assert stored > 200 * annotations


def test_a_thread_executes_another_image_while_others_annotate(recorder):
    outcome, ledger = recorder.run_twice(PROGRAMS / "exec_race", IMAGES)
    assert (outcome.status, outcome.stdout) == (7, b"the last image\n")
    stored, lost = recorder.check_books(ledger)
    assert stored >= IMAGES * 10 and lost == 0
