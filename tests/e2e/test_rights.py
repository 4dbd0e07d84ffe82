# SPDX-License-Identifier: Apache-2.0
"""The ladder of rights, walked from the top: at each level doctor tells the truth and a training program is recorded."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest
from conftest import BUILD, Daemon, spans, wait_until

HERE = pathlib.Path(__file__).resolve().parent
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
KERNEL_SIDE = ["--inh-caps", "+bpf,+perfmon", "--ambient-caps", "+bpf,+perfmon"]
CONTAINER = [
    "unshare",
    "--user",
    "--map-current-user",
    "--pid",
    "--fork",
    "--mount",
    "--mount-proc",
    "/usr/bin/python3",
]

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="gives up rights step by step, so it starts as root"),
    pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv is missing"),
]

# 200 steps with a sleep, and a second thread, then an exit code of its own. Prints what /proc counted of its main thread over a
# stretch of steps, between two moments.
TRAINING = """
import sys; sys.path.insert(0, {bundle!r} + '/python')
import threading, time
import stepscope as ss

def switches():
    text = open('/proc/thread-self/status').read()
    return sum(int(line.split()[1]) for line in text.splitlines() if 'ctxt_switches' in line)

def load():
    for _ in range(50):
        time.sleep(0.002)

worker = threading.Thread(target=load)
worker.start()
time.sleep(0.2)
before, since = switches(), time.monotonic_ns()
for n in range(200):
    with ss.step(n):
        with ss.annotate('forward'):
            sum(range(2000))
        time.sleep(0.001)
until, after = time.monotonic_ns(), switches()
worker.join()
print(before, after, since, until, flush=True)
sys.exit(7)
"""


@pytest.fixture
def bundle(short_dir):
    """The product where every user can read it, and a data directory of nobody."""
    os.chmod(short_dir, 0o755)
    for part in ("bin", "lib", "python"):
        shutil.copytree(BUILD / part, short_dir / "bundle" / part, symlinks=True)
    shutil.copy(HERE / "locked_container.py", short_dir / "bundle")
    return short_dir / "bundle"


class Level:
    """One way to start things, and what was recorded with it."""

    def __init__(self, bundle, prefix, uid):
        self.bundle = bundle
        self.prefix = prefix
        self.data = bundle.parent / "data"
        self.data.mkdir()
        os.chown(self.data, uid, uid)

    def stepscope(self, *arguments):
        command = [*self.prefix, self.bundle / "bin/stepscope", "--data-dir", self.data, *arguments]
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, check=False)

    def doctor(self):
        """The sched collector and the rights check as JSON, and the text for people."""
        answer = json.loads(self.stepscope("doctor", "--json").stdout)
        sched = next(c for c in answer["collectors"] if c["name"] == "sched")
        rights = next(c for c in answer["checks"] if c["name"] == "rights")
        text = self.stepscope("doctor")
        for word in ("level", "works", "lacks", "next_step", "error"):
            assert sched.get(word, "") in text.stdout, text.stdout
        assert text.returncode == (1 if sched.get("reason") else 0), text.stdout
        return sched, rights["found"]

    def train(self):
        """Runs the training program; returns the numbers it printed."""
        code = TRAINING.format(bundle=str(self.bundle))
        run = self.stepscope("run", "--job", "ladder", "--", "/usr/bin/python3", "-c", code)
        assert run.returncode == 7, run.stderr
        return list(map(int, run.stdout.split()))

    def recorded(self):
        """Rows of span and sched_slice, the loss report and the facts of the job, read with every right."""
        daemon = Daemon(self.data).start()
        try:
            rows = wait_until(lambda: spans(daemon, "ladder"), 10, "the spans")
            job = daemon.call("GetJob", job="ladder")
            return rows, spans(daemon, "ladder", "sched_slice"), spans(daemon, "ladder", "loss"), job["facts"]
        finally:
            daemon.stop()


def expect_spans(rows, losses):
    names = [row["name"] for row in rows]
    assert names.count("forward") == 200 and names.count("step") == 200, set(names)
    assert [row for row in losses if row["table_id"] == 3] == []


def main_thread_turns(slices, since, until):
    """Turns that ended within [since, until), of the thread with the most of them."""
    lanes = {}
    for row in slices:
        if since <= row["start_ns"] + row["dur_ns"] < until:
            lanes.setdefault(row["lane"], []).append(row)
    return max(lanes.values(), key=len)


def test_root_has_everything(bundle):
    level = Level(bundle, [], 0)
    sched, rights = level.doctor()
    assert (sched["level"], sched["reason"], sched["lacks"]) == ("full", "", "")
    assert "cap_bpf, cap_dac_read_search, cap_perfmon, cap_sys_ptrace" in rights, "the others were given up"
    level.train()
    rows, slices, losses, facts = level.recorded()
    expect_spans(rows, losses)
    assert facts["sched.level"] == "full"
    assert any(row["seq"] > 0 for row in slices)


def test_two_capabilities_are_enough_for_own_processes(bundle):
    level = Level(bundle, [*NOBODY, *KERNEL_SIDE], 65534)
    sched, rights = level.doctor()
    assert sched["level"] == "full", sched
    assert rights == "uid 65534, capabilities: cap_bpf, cap_perfmon"
    level.train()
    rows, slices, losses, facts = level.recorded()
    expect_spans(rows, losses)
    assert facts["sched.level"] == "full"
    assert any(row["seq"] > 0 for row in slices)


def test_without_a_capability_turns_come_from_perf(bundle):
    level = Level(bundle, NOBODY, 65534)
    sched, rights = level.doctor()
    assert (sched["level"], sched["state"], sched["error"]) == ("own", "idle", "EPERM"), sched
    assert "CAP_BPF" in sched["next_step"]
    assert rights == "uid 65534, capabilities: none"
    before, after, since, until = level.train()
    rows, slices, losses, facts = level.recorded()
    expect_spans(rows, losses)
    assert facts["sched.level"] == "own"
    assert [row for row in losses if row["table_id"] == 4] == [], "so the counts are exact"
    turns = main_thread_turns(slices, since, until)
    assert abs(len(turns) - (after - before)) <= 2, (
        "a switch may fall between a reading of the clock and of the counter"
    )
    assert all(row["state"] & 0x400 and row["seq"] == 0 for row in slices)
    for row in turns:
        assert row["dur_ns"] >= 0 and (row["wait_ns"] == 0 or not row["state"] & 0x800)


def test_a_locked_container_has_agents_and_its_own_proc(bundle):
    level = Level(bundle, [*NOBODY, *CONTAINER, bundle / "locked_container.py"], 65534)
    try_it = subprocess.run([*map(str, level.prefix), "true"], capture_output=True, text=True, check=False)
    if try_it.returncode != 0:
        pytest.skip(f"user namespaces are refused: {try_it.stderr}")
    sched, rights = level.doctor()
    assert (sched["level"], sched["error"]) == ("none", "EPERM"), sched
    assert "perf_event_open" in sched["failed_step"] and "bpf" in sched["reason"], sched
    assert "seccomp" in sched["next_step"]
    assert rights.endswith("capabilities: none")
    level.train()
    rows, slices, losses, facts = level.recorded()
    expect_spans(rows, losses)
    assert facts["sched.level"] == "none"
    assert slices == []
