# SPDX-License-Identifier: Apache-2.0
"""What threads slept for and who ended it, held against programs that know: who holds the GIL in C, the interpreter's own word on
the holder, data-loader workers that sleep in an item, a rank that comes late."""

import json
import os
import pathlib
import struct
import subprocess
import sys
import time

import pytest
from conftest import BIN, BUILD, TORCH_PYTHON, stepscope

PROGRAMS = pathlib.Path(__file__).with_name("wait_programs.py")
MS = 1_000_000
needs_torch = pytest.mark.skipif(not TORCH_PYTHON, reason="no PyTorch: script/bootstrap --torch provides one")


def start(daemon, name, python=sys.executable):
    """The program under `stepscope run`, as job `name`."""
    command = [BIN / "stepscope", "--data-dir", daemon.data_dir, "run", "--job", name, "--wait-upload", "0", "--"]
    return subprocess.Popen(
        [*command, python, PROGRAMS, name],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def finish(program):
    """What the program printed last."""
    out, err = program.communicate(timeout=120)
    assert program.returncode == 0, out + err
    return json.loads([line for line in out.splitlines() if line.startswith("{")][-1])


def slices(daemon, job, begin=0, end=0):
    """All sched_slice rows: answers are bounded, so a range that was cut is asked for in halves."""
    answer = daemon.call("GetSlices", job=job, table="sched_slice", limit=10_000, begin_ns=begin, end_ns=end)
    rows = answer.get("slices", [])
    if not answer.get("cut"):
        return rows
    begin = begin or min(int(row["start_ns"]) for row in rows) - 1
    end = end or time.monotonic_ns()
    middle = (begin + end) // 2
    halves = slices(daemon, job, begin, middle) + slices(daemon, job, middle, end)
    return list({(row["lane"], row["start_ns"]): row for row in halves}.values())


def waits(daemon, job, lock=(0, 0)):
    """Every wait of every thread as wait_tool sees it."""
    lines = []
    for track in daemon.call("ListTracks", job=job)["tracks"]:
        if track["kind"] == "thread":
            lines.append(f"T {track['lane']} {track['tid']} {track['pid']} {lock[0]} {lock[1]}")
    columns = ("wait_ns", "waker", "waker_kind", "syscall", "arg0", "state", "seq")
    for row in slices(daemon, job):
        fields = {field["name"]: int(field.get("integer", 0)) for field in row["fields"]}
        values = " ".join(str(fields[column]) for column in columns)
        lines.append(f"S {row['lane']} {row['start_ns']} {row['dur_ns']} {values}")
    tool = subprocess.run(
        [BUILD / "tests" / "wait_tool"], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    return json.loads(tool.stdout)


def test_a_thread_that_holds_the_gil_in_c_is_charged_for_the_wait(daemon, capsys):
    known = finish(start(daemon, "holder"))
    summary = daemon.call("GetSummary", job="holder")
    waiter = next(t for t in summary["threads"] if t["tid"] == known["waiter"])
    gil = [wait for wait in waiter["waits"] if wait["cause"] == "gil"]
    total = sum(int(wait["ns"]) for wait in gil)
    charged = [wait for wait in gil if (wait.get("peer") or {}).get("tid") == known["holder"]]
    share = sum(int(wait["ns"]) for wait in charged) / total
    with capsys.disabled():
        print(f"\nholder: {total / MS:.0f} ms of GIL waits, {100 * share:.1f} % charged to the holder", end="")
    assert total > 0.9 * 20 * 45 * MS, "20 calls of 50 ms, less the time the waiter takes to ask"
    assert share >= 0.95
    longest = max(charged, key=lambda wait: int(wait["ns"]))
    assert longest["end"] == "blocked" and longest["root"]["doing"] == "clock_nanosleep"
    assert 18 <= int(longest["count"]) <= 22, "each call is one wait"
    assert int(longest["timeouts"]) >= 7 * 20, "not given up for 7 times 5 ms or more"
    report = stepscope("report", "holder", "--format", "json", data_dir=daemon.data_dir)
    assert report.returncode == 0, report.stderr
    threads = json.loads(report.stdout)["threads"]
    assert any(wait["cause"] == "gil" for thread in threads for wait in thread["waits"])


class HolderSamples:
    """Who the interpreter itself says holds its lock: reads of gil.last_holder and gil.locked from outside."""

    def __init__(self, facts):
        self.tid_of = {state: tid for tid, state in facts["threads"]}
        self.lock = facts["lock"]
        self.samples = []
        self.memory = os.open(f"/proc/{facts['pid']}/mem", os.O_RDONLY)

    def take(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            before = time.monotonic_ns()
            holder, locked = struct.unpack("<Qi", os.pread(self.memory, 12, self.lock + 8))
            after = time.monotonic_ns()
            if locked and holder in self.tid_of and after - before < 200_000:
                self.samples.append(((before + after) // 2, self.tid_of[holder]))
            time.sleep(0.0007)
        os.close(self.memory)


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the test reads the lock where CPython 3.11 keeps it")
def test_among_three_rivals_the_holder_is_the_interpreters(daemon, capsys):
    program = start(daemon, "rivals")
    facts = json.loads(program.stdout.readline())
    truth = HolderSamples(facts)
    truth.take(2.5)
    finish(program)
    rivals = set(truth.tid_of.values())
    holds = []
    for wait in waits(daemon, "rivals", (facts["lock"], facts["lock"] + 208)):
        if wait["cause"] == "gil" and wait["tid"] in rivals:
            holds += [(hold["begin"], hold["end"], hold["tid"], wait["tid"]) for hold in wait["holds"]]
    holds.sort()
    right = asked = 0
    for at, tid in truth.samples:
        for begin, end, holder, waiter in holds:
            if begin > at:
                break
            if begin <= at < end and waiter != tid:
                asked += 1
                right += holder == tid
    with capsys.disabled():
        print(f"\nrivals: {asked} questions, {100 * right / max(asked, 1):.1f} % answered as the interpreter", end="")
    assert asked > 500
    assert right >= 0.9 * asked


def ended_in(waits_of_thread, culprits):
    """Share of the waiting time whose chain ends in a sleep that one of the threads `culprits` asked for, or in one of them
    waiting for a CPU: on a busy machine that is what kept the other waiting."""
    total = sum(wait["asleep"] for wait in waits_of_thread)

    def is_right(chain):
        root = chain["hops"][-1] if chain["hops"] else {"tid": 0}
        return root["tid"] in culprits and (root["syscall"] == "clock_nanosleep" or chain["end"] == "runnable")

    return sum(wait["asleep"] for wait in waits_of_thread if is_right(wait["chain"])) / total, total


def describe(waits_of_thread):
    """Chains by time, for the reader of a failure."""
    sums = {}
    for wait in waits_of_thread:
        chain = " <= ".join(f"{hop['tid']}[{hop['syscall'] or hop['cause']}]" for hop in wait["chain"]["hops"])
        key = f"{wait['syscall']}: {chain} {wait['chain']['end']}"
        sums[key] = sums.get(key, 0) + wait["asleep"] / MS
    return "\n".join(f"{ns:9.1f} ms {key}" for key, ns in sorted(sums.items(), key=lambda item: -item[1])[:15])


@needs_torch
def test_a_wait_for_the_loader_ends_in_the_item_of_a_worker(daemon, capsys):
    known = finish(start(daemon, "loader", TORCH_PYTHON))
    summary = daemon.call("GetSummary", job="loader")
    workers = {t["tid"] for t in summary["threads"] if t["pid"] != known["main"]}
    of_main = [
        wait
        for wait in waits(daemon, "loader")
        if wait["tid"] == known["main"] and known["begin"] <= wait["begin"] < known["end"] and wait["syscall"] == "poll"
    ]
    share, total = ended_in(of_main, workers)
    with capsys.disabled():
        print(f"\nloader: {total / MS:.0f} ms of waits, {100 * share:.1f} % end in a worker's item", end="")
    assert total > 100 * MS
    assert share >= 0.85, describe(of_main)


@needs_torch
def test_a_wait_in_an_all_reduce_ends_with_the_rank_that_came_late(daemon, capsys):
    known = finish(start(daemon, "all_reduce", TORCH_PYTHON))
    (_, early, begin, end), (_, late, _, _) = known["ranks"]
    of_early = [
        wait
        for wait in waits(daemon, "all_reduce")
        if wait["tid"] == early and begin <= wait["begin"] < end and wait["asleep"] > MS
    ]
    share, total = ended_in(of_early, {late})
    with capsys.disabled():
        print(f"\nall-reduce: {total / MS:.0f} ms of waits, {100 * share:.1f} % end in the late rank", end="")
    assert total > 300 * MS
    assert share >= 0.85, describe(of_early)
