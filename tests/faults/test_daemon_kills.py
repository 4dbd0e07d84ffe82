# SPDX-License-Identifier: Apache-2.0
"""SIGKILL of the daemon under load, at any moment, start-up included. Agents keep what they record in their rings: none of
their rows is lost or doubled. Turns of threads are recorded by the daemon alone: the hole it leaves is in `loss`, with its
interval."""

import random
import threading
import time

import pyarrow.dataset as ds
import pytest
from conftest import (
    DAEMON_AWAY,
    FULL,
    assert_stored_once,
    losses,
    numbers_by_slot,
    wait_for_agents,
    wait_until,
)

KILLS = 50 if FULL else 4
MS = 1_000_000
KERNEL = 2  # LossStage


@pytest.fixture
def supervised(make_daemon, short_dir):
    """A daemon to be killed. Whoever keeps the recorded processes' memory for it (systemd's FD store) wraps its start here."""
    return make_daemon(f"upload.url=file://{short_dir}/out", "upload.part_seconds=1", "upload.jitter_ms=0").start()


def kill_in_start_up(daemon, delay):
    """Starts the daemon and kills it `delay` seconds later, ready or not."""

    def start():
        try:
            daemon.start()
        except AssertionError:
            pass  # it did not come that far

    before = daemon.process
    thread = threading.Thread(target=start)
    thread.start()
    wait_until(lambda: daemon.process is not before, 30, "the new process")
    time.sleep(delay)
    daemon.kill()
    thread.join()


def uploaded(folder, table, columns):
    """Rows of a table in the data set, as tuples."""
    found = ds.dataset(f"{folder}/v1/{table}", partitioning="hive").to_table(columns=columns)
    return list(zip(*(found.column(c).to_pylist() for c in columns)))


def breaks(slices):
    """(end, start) of turns between which rows of a thread are missing: `seq` does not go on by one."""
    by_thread = {}
    for tid, on, dur, seq in slices:
        by_thread.setdefault(tid, []).append((on, on + dur, seq))
    for turns in by_thread.values():
        turns.sort()
        for (_, off, seq), (on, _, following) in zip(turns, turns[1:]):
            if following != seq + 1:
                yield off, on


def test_a_killed_daemon_loses_no_agent_row_and_tells_the_hole_in_the_turns(supervised, make_tree, short_dir, capsys):
    daemon, dice = supervised, random.Random(11)
    tree = make_tree(daemon, processes=2, threads=3, pause_us=5000, job="load")
    wait_until(lambda: daemon.call("ListJobs").get("jobs"), 30, "the job")
    deaths = []
    while len(deaths) < KILLS:
        time.sleep(dice.uniform(0.2, 1.5))
        deaths.append(time.monotonic_ns())
        daemon.kill()
        if len(deaths) % 3 == 0 and len(deaths) < KILLS:
            deaths.append(time.monotonic_ns())
            kill_in_start_up(daemon, dice.uniform(0, 0.2))
        time.sleep(dice.uniform(0, 0.3))
        daemon.start()
    wait_for_agents(daemon, 2)  # after many deaths in a row they wait up to 10 s
    tree.kill()
    away = [row for row in losses(daemon, "load", DAEMON_AWAY) if row[2] == KERNEL]
    daemon.call("ControlService/EndJob", job="load")
    wait_until(lambda: daemon.call("ControlService/GetUpload", job="load")["state"] == "done", 120, "the upload")
    assert len(daemon.call("ListJobs")["jobs"]) == 1, "a restarted daemon takes the job up again"

    stored = numbers_by_slot(uploaded(short_dir / "out", "span", ["name", "number"]))
    rows = assert_stored_once(tree.committed(), stored)
    slices = uploaded(short_dir / "out", "sched_slice", ["tid", "node_time_ns", "dur_ns", "seq"])
    assert len({(tid, on) for tid, on, *_ in slices}) == len(slices), "no turn is doubled"
    for death in deaths:
        told = [begin for begin, end, *_ in away if begin <= death <= end]
        assert told, f"the death at {death} is in no loss row: {away}"
        assert death - max(told) < 2_000 * MS, "the hole begins at most about a second before"
    for off, on in breaks(slices):
        assert any(begin <= on and off <= end for begin, end, *_ in away), f"no loss row tells of [{off}, {on})"
    # The file's own interval rows reached the data set too.
    told = uploaded(short_dir / "out", "loss", ["reason", "stage"])
    assert told.count((DAEMON_AWAY, KERNEL)) == len(away)
    before = [death - max(b for b, e, *_ in away if b <= death <= e) for death in deaths]
    with capsys.disabled():
        print(
            f"\n  {len(deaths)} kills: {rows} spans stored once, none lost; {len(slices)} turns; the holes begin "
            f"{min(before) / MS:.0f} to {max(before) / MS:.0f} ms before the kill, the longest lasts "
            f"{max(e - b for b, e, *_ in away) / MS:.0f} ms"
        )
