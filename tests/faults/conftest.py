# SPDX-License-Identifier: Apache-2.0
"""The fault tests use what the end-to-end tests use (their fixtures, their daemon, their S3 server) and annotating processes that
tell what they committed."""

import importlib.util
import mmap
import os
import pathlib
import signal
import subprocess
import sys

import pytest

E2E = pathlib.Path(__file__).resolve().parents[1] / "e2e"
sys.path.insert(0, str(E2E))
spec = importlib.util.spec_from_file_location("e2e_conftest", E2E / "conftest.py")
e2e = importlib.util.module_from_spec(spec)
spec.loader.exec_module(e2e)
globals().update({name: value for name, value in vars(e2e).items() if not name.startswith("_")})

TREE = e2e.BUILD / "tests" / "annotating_tree"
WORDS, FIRST_SLOT = 1 << 17, 8
RING_FULL, NO_RING, DAEMON_AWAY, DAMAGED = 1, 2, 3, 12  # LossReason


class AnnotatingTree:
    """Runs annotating_tree.c in a process group of its own."""

    def __init__(self, path, daemon, processes=1, threads=3, pause_us=1000, churn=False, job=None, env=None):
        path.write_bytes(bytes(8 * WORDS))
        with open(path, "r+b") as file:
            self.words = memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")
        job_env = {"STEPSCOPE_JOB": job} if job else {}
        self.process = subprocess.Popen(
            [TREE, path, str(processes), str(threads), str(pause_us), "churn" if churn else "steady"],
            env={**daemon.agent_env(), **job_env, **(env or {})},
            start_new_session=True,
        )

    def kill(self):
        """All of its processes, with SIGKILL."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(30)

    def processes(self):
        """Long-lived ones that came so far."""
        return self.words[1]

    def committed(self):
        """Spans certainly committed, by slot."""
        return {slot: self.words[FIRST_SLOT + slot] for slot in range(self.words[0])}


@pytest.fixture
def make_tree(short_dir):
    """make_tree(daemon, …): annotating processes killed at the end of the test."""
    made = []

    def make(daemon, **keywords):
        made.append(AnnotatingTree(short_dir / f"committed-{len(made)}", daemon, **keywords))
        return made[-1]

    yield make
    for tree in made:
        tree.kill()


def numbers_by_slot(rows):
    """rows: (name, number) of spans. A name is "s<slot>"."""
    found = {}
    for name, number in rows:
        found.setdefault(int(name[1:]), []).append(number)
    return found


def assert_stored_once(committed, stored, dropped=0):
    """Nothing doubled; what a thread committed is there, but for what the agent counted as dropped. Of each thread one span more
    may be stored: its end was written, but the call had not returned. Returns how many rows are stored."""
    missing, doubled = [], []
    for slot, count in committed.items():
        numbers = stored.get(slot, [])
        doubled += [(slot, n) for n in set(numbers) if numbers.count(n) > 1] if len(set(numbers)) < len(numbers) else []
        missing += [(slot, n) for n in sorted(set(range(count)) - set(numbers))]
        assert not numbers or max(numbers) <= count, f"slot {slot}: number {max(numbers)} of {count} committed"
    assert set(stored) <= set(committed)
    assert not doubled, f"doubled: {doubled[:10]}"
    assert len(missing) <= dropped, f"{len(missing)} missing, {dropped} counted as dropped: {missing[:10]}"
    return sum(map(len, stored.values()))


def wait_for_agents(daemon, count):
    """Until the agents have found the restarted daemon: one that ends before that takes with it what its rings hold."""

    def sessions():
        collectors = daemon.call("ControlService/GetDoctor")["collectors"]
        return int(next(c for c in collectors if c["name"] == "agent")["numbers"]["sessions"])

    e2e.wait_until(lambda: sessions() >= count, 30, f"{count} agents")


def dropped_spans(daemon, job):
    """Spans the job's agents counted as dropped; their books count records, two a span."""
    records = sum(count for *_, reason, count in losses(daemon, job) if reason in (RING_FULL, NO_RING))
    return (records + 1) // 2


def losses(daemon, job, reason=None):
    """(start_ns, end_ns, stage, reason, count) of the job's loss rows, by start."""
    rows = e2e.spans(daemon, job, table="loss")
    found = [(r["start_ns"], r["start_ns"] + r["dur_ns"], r["stage"], r["reason"], r["count"]) for r in rows]
    return sorted(row for row in found if reason is None or row[3] == reason)


def stored_numbers(daemon, job="last"):
    """Numbers of the job's spans by slot, asked of the daemon."""
    return numbers_by_slot((row["name"], row["number"]) for row in e2e.spans(daemon, job))
