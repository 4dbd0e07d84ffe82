# SPDX-License-Identifier: Apache-2.0
"""Hosts that close every descriptor and open files under our numbers: what they wrote is what they find."""

import pytest
from recorded_twice import FULL, PROGRAMS

ROUNDS = 100 if FULL else 6


@pytest.mark.parametrize("way", ["close_range", "close_loop", "dup2"])
def test_a_host_that_takes_our_descriptors_keeps_its_files(recorder, way):
    outcome, ledger = recorder.run_twice(PROGRAMS / "descriptors", way, ROUNDS)
    assert (outcome.status, outcome.stdout) == (0, b"intact\n")
    assert len(outcome.files) >= 25 * ROUNDS
    stored, _ = recorder.check_books(ledger)
    assert stored > 10 * ROUNDS


def test_a_program_that_becomes_a_daemon(recorder):
    outcome, ledger = recorder.run_twice(PROGRAMS / "becomes_daemon")
    assert outcome.files == {"daemon.log": b"at work\n"}
    assert recorder.check_books(ledger) == (321, 0)
