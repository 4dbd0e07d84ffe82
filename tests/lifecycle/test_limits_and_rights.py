# SPDX-License-Identifier: Apache-2.0
"""Limits of the process and of its cgroup, and rights given up on the way: what is missing has a name, the host no trouble."""

import pytest
from own_cgroup import OwnCgroup
from recorded_twice import PROGRAMS

USER = 54321  # nobody else's, so that its processes are counted alone
RECORDING = "recording"
NO_SENDER = "recording without a sender: no thread to be had; the daemon reads what is in the ring"
# Name: arguments, and the state the agent is left in; every annotation is stored if it records.
LIMITS = {
    "no file may grow": (("fsize", 0, "before", 3), "off: no ring: file size limit"),
    "no file may grow any more": (("fsize", 0, "after", 3), RECORDING),
    "small files": (("fsize", 12 << 20, "before", 3), RECORDING),
    "no descriptor": (("nofile", 3, "before", 3), "off: cannot connect to SOCKET: error 24"),
    "no more descriptors": (("nofile", 3, "after", 3), RECORDING),
    "few descriptors": (("nofile", 64, "before", 3), RECORDING),
    "too little address space for a ring": (("as", 24 << 20, "before", 0), "off: no ring: mmap: error 12"),
    "no more address space": (("as", 1, "after", 0), RECORDING),
    "no thread": (("nproc", 1, "before", 0, USER), NO_SENDER),
    "no more threads": (("nproc", 1, "after", 3, USER), RECORDING),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_process_under_a_limit(recorder, name):
    arguments, state = LIMITS[name]
    outcome, ledger = recorder.run_twice(PROGRAMS / "limits", *arguments)
    assert outcome.status == 5, outcome
    assert ledger.state == state.replace("SOCKET", recorder.socket)
    if state.startswith("recording"):
        stored, lost = recorder.check_books(ledger)
        assert stored >= 300 and lost == 0
    else:
        assert recorder.nothing_came()


@pytest.fixture
def cgroup():
    made = []

    def make(controller):
        try:
            made.append(OwnCgroup(controller))
        except OSError as error:
            pytest.skip(f"no cgroup of our own: {error}")
        return made[-1]

    yield make
    for one in made:
        one.remove()


def test_a_cgroup_with_as_many_processes_as_it_may_have(recorder, cgroup):
    pids = cgroup("pids")
    pids.limit("pids.max", 1)
    outcome, ledger = recorder.run_twice(*pids.command(PROGRAMS / "limits", "none", 0, "before", 2))
    assert outcome.status == 5 and b"0 threads" in outcome.stdout
    assert ledger.state == NO_SENDER
    assert recorder.check_books(ledger) == (300, 0)


@pytest.mark.parametrize(("filled_with", "mib"), [("file", 96), ("own", 32)])
def test_a_cgroup_with_all_the_memory_it_may_have(recorder, cgroup, filled_with, mib):
    """Pages of files give way to rings; so much memory of its own that rings do not fit beside it is another matter."""
    memory = cgroup("memory")
    memory.limit("memory.max", 64 << 20)
    outcome, ledger = recorder.run_twice(*memory.command(PROGRAMS / "memory", filled_with, mib, 60))
    assert (outcome.status, outcome.stdout) == (11, b"worked\n")
    assert memory.killed() == 0
    assert ledger.state == RECORDING
    assert recorder.check_books(ledger) == (61 * 200, 0)


@pytest.mark.parametrize(
    ("way", "ids", "annotations"),
    [
        ("user", "uid 65534 gid 65534", 710),
        ("group", "uid 0 gid 65534", 710),
        ("dumpable", "uid 0 gid 0", 710),
        ("root", "uid 0 gid 0", 700),
    ],
)
def test_rights_given_up_after_the_daemon_knows_the_process(recorder, way, ids, annotations):
    outcome, ledger = recorder.run_twice(PROGRAMS / "privileges", way)
    assert (outcome.status, outcome.stdout.decode()) == (9, f"{ids} child 0\n"), outcome
    assert ledger.state == RECORDING
    assert recorder.check_books(ledger) == (annotations, 0)
