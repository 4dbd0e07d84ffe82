# SPDX-License-Identifier: Apache-2.0
"""Processes that make processes, in every way there is, while they and their children annotate."""

import pytest
from recorded_twice import FULL, PROGRAMS

CHILDREN = 1000 if FULL else 60
BUSY_THREADS = 3
# Busy threads fill them at once: nearly all they do is dropped and counted.
SMALL_RINGS = {"STEPSCOPE_RING_BYTES": "4096"}


def make(recorder, way, children, busy=0, annotations=2, **run):
    env = SMALL_RINGS if busy else {}
    outcome, ledger = recorder.run_twice(
        PROGRAMS / "forks", way, children, busy, annotations, env=env, timeout=400, **run
    )
    assert outcome.stdout.decode() == f"{children} children, 0 hung, 0 failed\n"
    assert (outcome.status, outcome.stderr) == (0, b"")
    return ledger


def test_forks_at_full_speed(recorder):
    children = 10000 if FULL else 1000
    ledger = make(recorder, "fork", children)
    stored, lost = recorder.check_books(ledger)
    print(
        f"{children} forks: {stored} spans stored, {lost} records lost, {ledger.unheard} of them by processes without a daemon"
    )
    if children <= 1000:  # fewer than wait in the kernel's queue, whatever the daemon's speed
        assert lost == 0
    assert 2 * stored + lost == 2 * (1 + 3 * children)


def test_processes_that_begin_and_end_while_the_daemon_is_stopped(recorder):
    ledger = make(recorder, "fork", CHILDREN, around=recorder.stopped)
    assert recorder.check_books(ledger) == (1 + 3 * CHILDREN, 0)
    assert len(recorder.last_runs) == 1, "children that nobody saw alive belong to their parent's job"


@pytest.mark.parametrize("way", ["vfork", "vfork_exec", "clone", "spawn", "grandchild", "inside"])
def test_children_of_a_quiet_parent(recorder, way):
    ledger = make(recorder, way, CHILDREN)
    stored, lost = recorder.check_books(ledger)
    of_children = {"vfork": 0, "grandchild": 6}.get(way, 2) * CHILDREN
    of_parent = 1 + CHILDREN * (2 if way == "inside" else 1)
    assert (stored, lost) == (of_parent + of_children, 0)


@pytest.mark.parametrize("way", ["fork", "vfork", "vfork_exec", "clone", "spawn", "grandchild", "inside"])
def test_children_beside_threads_that_annotate_at_full_speed(recorder, way):
    ledger = make(recorder, way, CHILDREN, BUSY_THREADS)
    stored, lost = recorder.check_books(ledger)
    assert stored > 0 and lost > 0


@pytest.mark.parametrize("busy", [0, BUSY_THREADS])
def test_forks_while_the_session_is_being_opened(recorder, busy):
    ledger = make(recorder, "opening", CHILDREN, busy)
    stored, _ = recorder.check_books(ledger)
    assert stored > 3 * CHILDREN


@pytest.mark.parametrize("busy", [0, BUSY_THREADS])
def test_forks_in_a_signal_handler(recorder, busy):
    ledger = make(recorder, "handler", CHILDREN, busy)
    recorder.check_books(ledger, copies=CHILDREN)
