# SPDX-License-Identifier: Apache-2.0
"""The wall clock is stepped while a job runs, by an hour and a day, both ways. Only the processes under test see it: a preloaded
library adds the step (stepped_clock.c). Rows keep the order of node time, their wall times follow the clock, and upload and
queries go on."""

import json
import mmap
import time

import pyarrow.dataset as ds
from conftest import BUILD, FULL, assert_stored_once, numbers_by_slot, wait_until

SECOND = 1_000_000_000
HOUR, DAY = 3600, 86400
STEPS = [HOUR, -HOUR, DAY, -DAY, 0] if FULL else [HOUR, -DAY, 0]  # from the true time, in seconds
SETTLE = 3  # seconds until clock samples, taken once a second, have told a step


class WallClock:
    """The stepped clock of a daemon and a target, and when it was stepped."""

    def __init__(self, path):
        path.write_bytes(bytes(8))
        with open(path, "r+b") as file:
            self.step_ns = memoryview(mmap.mmap(file.fileno(), 0)).cast("q")
        self.env = {"LD_PRELOAD": str(BUILD / "tests" / "stepped_clock.so"), "STEPPED_CLOCK": str(path)}
        self.history = []

    def step(self, seconds):
        self.step_ns[0] = seconds * SECOND
        self.history.append((time.monotonic_ns(), seconds))

    def wall_ns(self, seconds, node_ns):
        return node_ns + time.time_ns() - time.monotonic_ns() + seconds * SECOND


def test_a_stepped_wall_clock_stops_nothing(make_daemon, make_tree, s3, short_dir, capsys):
    clock = WallClock(short_dir / "clock")
    settings = ("upload.part_seconds=2", *s3.settings())
    daemon = make_daemon(*settings, env={**s3.env, **clock.env}).start()
    tree = make_tree(daemon, threads=2, pause_us=5000, job="stepped", env=clock.env)
    clock.step(0)
    time.sleep(SETTLE)
    parts = []
    for seconds in STEPS:
        clock.step(seconds)
        time.sleep(SETTLE + 2)
        summary = daemon.call("GetSummary", job="stepped")
        assert summary["spans"], "queries go on"
        assert daemon.call("GetSlices", job="stepped", table="span", limit=5, newest_first=True)["slices"]
        upload = daemon.call("ControlService/GetUpload", job="stepped")
        parts.append((upload["parts_done"], upload["state"], upload["reason"]))
    tree.kill()
    daemon.call("ControlService/EndJob", job="stepped")
    wait_until(lambda: daemon.call("ControlService/GetUpload", job="stepped")["state"] == "done", 120, "the upload")
    done = [part for part, *_ in parts]
    assert done == sorted(set(done)), f"a part more after every step: {parts}"

    columns = ["name", "number", "node_time_ns", "wall_time_ns"]
    table = ds.dataset(f"{s3.bucket}/t/v1/span", filesystem=s3.file_system(), partitioning="hive").to_table(
        columns=columns
    )
    rows = list(zip(*(table.column(c).to_pylist() for c in columns)))
    assert_stored_once(tree.committed(), numbers_by_slot((name, number) for name, number, *_ in rows))
    by_thread = sorted((name, node, number) for name, number, node, _ in rows)
    order = [(name, number) for name, _, number in by_thread]
    assert order == sorted(order), "in node time every thread's spans are in the order of their numbers"

    ends = [at for at, _ in clock.history[1:]] + [time.monotonic_ns()]
    worst = 0
    for (begin, seconds), end in zip(clock.history, ends):
        within = [(node, wall) for _, _, node, wall in rows if begin + SETTLE * SECOND // 2 < node < end - SECOND]
        assert within, f"rows while the clock was {seconds} s off"
        worst = max([worst, *(abs(wall - clock.wall_ns(seconds, node)) for node, wall in within)])
    assert worst < SECOND, f"wall times follow the clock: {worst / SECOND} s off"

    (manifest,) = [p for p in s3.objects(".json") if p.parent.name != "parts"]
    assert json.loads(manifest.read_text())["state"] == "complete"
    with capsys.disabled():
        print(f"\n  {len(STEPS)} steps: {len(rows)} spans once, in order, wall times at most {worst / 1e6:.1f} ms off")
