# SPDX-License-Identifier: Apache-2.0
"""Recording makes no system call, waits for nobody and knows what it dropped: a thread that may not make any call of the kernel
records while its daemon is killed and comes back."""

import mmap
import random
import re
import signal
import struct
import subprocess
import time

from e2e_fixtures import BUILD, FULL, wait_until

HOT_PATH = BUILD / "tests/guest_hot_path"
ANNOTATIONS = 10_000_000 if FULL else 1_000_000
DAEMON_KILLS = 50 if FULL else 3
OTHER_ROWS = 24  # of the span table: marks, tokens and windows, each eight times
PAUSE = 200  # instructions that do nothing: a few microseconds


class HotPath:
    """The program, with the numbers it shares."""

    def __init__(self, daemon, folder, *options, annotations=ANNOTATIONS):
        shared = folder / "shared"
        shared.write_bytes(bytes(4096))
        self._file = open(shared, "r+b")
        self._shared = mmap.mmap(self._file.fileno(), 4096)
        command = [HOT_PATH, str(annotations), str(PAUSE), shared, *options]
        self.process = subprocess.Popen(command, env=daemon.agent_env(), stdout=subprocess.PIPE, text=True)

    def annotations(self):
        return struct.unpack_from("<Q", self._shared, 8)[0]

    def stop(self):
        """Its last words, as numbers by name."""
        struct.pack_into("<Q", self._shared, 0, 1)
        out, _ = self.process.communicate(timeout=300)
        assert self.process.returncode == 0, (self.process.returncode, out)
        return {key: int(value) for key, value in re.findall(r"(\w+) (-?\d+)", out)}


def stored_records(daemon):
    """Records behind the rows the daemon has, a span being two, less the rows of the other calls."""
    rows = {table["table"]: int(table["rows"]) for table in daemon.call("GetJob", job="last").get("tables", [])}
    return 2 * (rows.get("span", 0) - OTHER_ROWS)


def losses(daemon):
    return {
        (loss["stage"], loss["reason"]): int(loss["count"])
        for loss in daemon.call("GetJob", job="last").get("loss", [])
    }


def dropped_records(daemon):
    return sum(count for (stage, _), count in losses(daemon).items() if stage == "agent")


def test_a_thread_without_system_calls_records_across_daemon_deaths(make_daemon, short_dir, capsys):
    daemon = make_daemon("sched.mode=off").start()
    program = HotPath(daemon, short_dir)
    dice = random.Random(5)
    wait_until(program.annotations, 20, "the first annotation under the filter")
    for _ in range(DAEMON_KILLS):
        time.sleep(dice.uniform(0.05, 0.4))
        daemon.kill()
        before = program.annotations()
        time.sleep(dice.uniform(0, 0.2))
        daemon.start()
        assert program.annotations() > before, "recording goes on without a daemon"
        assert program.process.poll() is None
    wait_until(lambda: program.annotations() > ANNOTATIONS - 2, 300, "the annotations")
    said = program.stop()
    assert said["filtered"] == 2 and said["flushed"] == 1
    assert said["switches"] == 0, f"the recording thread never gave up its CPU: {said}"
    assert said["faults"] <= 8, f"its ring's pages are mapped before the first record (Linux 5.14): {said}"
    wait_until(lambda: stored_records(daemon) + said["lost"] >= said["records"], 30, "the last rows")
    assert stored_records(daemon) + said["lost"] == said["records"], (said, losses(daemon))
    # What its rings say of drops is told with the news of its end.
    wait_until(lambda: dropped_records(daemon) >= said["lost"], 10, "the last drops")
    assert dropped_records(daemon) == said["lost"], "the daemon knows of each drop"
    with capsys.disabled():
        print(
            f"\n  {said['records']} records of {program.annotations() + 1} annotations, {DAEMON_KILLS} daemon kills: "
            f"{said['records'] - said['lost']} stored, {said['lost']} dropped and counted, 0 voluntary switches"
        )


def test_the_filter_kills_on_any_system_call(make_daemon, short_dir):
    program = HotPath(make_daemon("sched.mode=off").start(), short_dir, "bite", annotations=10)
    assert program.process.wait(30) == -signal.SIGSYS
