# SPDX-License-Identifier: Apache-2.0
"""Runs a program twice, without and with a daemon, and checks that it noticed nothing and that its books and the store agree."""

import collections
import contextlib
import dataclasses
import importlib.util
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

E2E = pathlib.Path(__file__).parents[1] / "e2e"
sys.path.insert(0, str(E2E))
# By path: the conftest of these tests has the same name.
spec = importlib.util.spec_from_file_location("e2e_conftest", E2E / "conftest.py")
e2e = importlib.util.module_from_spec(spec)
spec.loader.exec_module(e2e)

BUILD, FULL, wait_until = e2e.BUILD, e2e.FULL, e2e.wait_until
PROGRAMS = BUILD / "tests" / "lifecycle"
SERIES, SERIES_SHIFT, HEADER_BYTES = 1 << 16, 40, 256


class Ledger:
    """What the processes of a run say that they annotated (programs/ledger.h)."""

    def __init__(self, path):
        self.path = path
        with open(path, "wb") as file:
            file.truncate(HEADER_BYTES + 16 * SERIES)

    def _header(self):
        with open(self.path, "rb") as file:
            return struct.unpack("<Qq232sQ", file.read(HEADER_BYTES))

    @property
    def at_work(self):
        return self._header()[1]

    @property
    def state(self):
        return self._header()[2].split(b"\0")[0].decode()

    @property
    def unheard(self):
        return self._header()[3]

    def series(self):
        """(begun, done) of each series."""
        used = min(self._header()[0], SERIES)
        with open(self.path, "rb") as file:
            file.seek(HEADER_BYTES)
            numbers = list(struct.iter_unpack("<QQ", file.read(16 * used)))
        return [(max(begun, done), done) for begun, done in numbers]


@dataclasses.dataclass
class Outcome:
    """What a host and its user can see of a run."""

    status: int
    stdout: bytes
    stderr: bytes
    files: dict


def run(command, ledger, folder, socket, env=None, timeout=120, **popen):
    """One run in an empty folder; ends when the program and all that hold its output have ended."""
    cwd = pathlib.Path(tempfile.mkdtemp(dir=folder))
    os.chmod(cwd, 0o777)
    environment = {
        **os.environ,
        "STEPSCOPE_SOCKET": str(socket),
        "STEPSCOPE_JOB": ledger.path.name,
        "LIFECYCLE_LEDGER": str(ledger.path),
        "PYTHONPATH": str(BUILD / "python"),
        **(env or {}),
    }
    result = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        timeout=timeout,
        check=False,
        **popen,
    )
    wait_until(lambda: ledger.at_work == 0, 60, "the processes that left the program's session")
    files = {str(path.relative_to(cwd)): path.read_bytes() for path in cwd.rglob("*") if path.is_file()}
    return Outcome(result.returncode, result.stdout, result.stderr, files)


class Recorder:
    """A daemon, and what it stored of one run after the other."""

    def __init__(self):
        self.folder = folder = pathlib.Path(tempfile.mkdtemp(prefix="ss-"))  # short: it holds a socket
        os.chmod(folder, 0o755)  # also for programs that give up their user
        self.daemon = e2e.Daemon(folder / "data", "sched.mode=off").start()
        self.socket = self.daemon.facts()["agent_socket"]
        self.known_runs = set()
        self.last_runs = []  # those of the program that check_books looked at

    def stop(self):
        self.daemon.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def ledger(self):
        handle, path = tempfile.mkstemp(dir=self.folder, prefix="ledger-")
        os.close(handle)
        os.chmod(path, 0o666)
        return Ledger(pathlib.Path(path))

    @contextlib.contextmanager
    def stopped(self):
        """The daemon stands still (SIGSTOP): it accepts nothing and reads nothing, but does not refuse either."""
        self.daemon.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.daemon.process.send_signal(signal.SIGCONT)

    def run_twice(self, *command, env=None, recorded_env=None, around=contextlib.nullcontext, **popen):
        """Asserts that both runs look alike; returns the recorded one and its ledger. The last two are for that one alone."""
        plain = run(command, self.ledger(), self.folder, self.folder / "none.sock", env, **popen)
        ledger = self.ledger()
        self.known_runs = self._runs()
        with around():
            recorded = run(command, ledger, self.folder, self.socket, {**(env or {}), **(recorded_env or {})}, **popen)
        assert recorded == plain, f"\nalone:    {plain}\nrecorded: {recorded}"
        return recorded, ledger

    def _runs(self):
        jobs = self.daemon.call("ListJobs", limit=1000).get("jobs", [])
        return {f"{job['job']}@{job['run']}" for job in jobs}

    def _ended(self, run_name):
        try:
            return self.daemon.call("ControlService/EndJob", job=run_name)
        except e2e.RpcError as error:
            if "try again" not in str(error):  # thousands of processes take longer than one call waits
                raise
            return None

    def stored(self):
        """What came of the last run: Counter of (number, lane) of the spans "work", and records lost by reason."""
        spans, lost = collections.Counter(), collections.Counter()
        wait_until(lambda: self._runs() - self.known_runs, 20, "the hello of the recorded run")
        # Ending a job reads all hellos that wait, and all that dead processes left.
        self.last_runs = []
        while new := self._runs() - self.known_runs:
            for run_name in sorted(new):
                self.last_runs.append(run_name)
                wait_until(lambda name=run_name: self._ended(name), 120, f"the end of {run_name}")
                self.known_runs.add(run_name)
                spans.update(work_spans(self.daemon, run_name))
                for loss in self.daemon.call("GetJob", job=run_name).get("loss", []):
                    if loss["stage"] in ("agent", "ingest"):
                        lost[loss["reason"]] += int(loss["count"])
        return spans, lost

    def nothing_came(self):
        return self._runs() == self.known_runs

    def check_books(self, ledger, copies=0):
        """Every annotation of the ledger is stored once or counted as lost; returns (stored spans, lost records).

        Up to `copies` spans may come from two processes: a child made inside an annotation repeats it, stored or lost.
        """
        rows, lost = self.stored()
        assert set(lost) <= {"ring full", "no ring"}, lost
        twice = [(number >> SERIES_SHIFT, number & (1 << SERIES_SHIFT) - 1) for (number, _), n in rows.items() if n > 1]
        assert twice == [], f"stored twice (series, number): {twice[:10]}"
        numbers = {number for number, _ in rows}
        assert len(rows) - len(numbers) <= copies, "a span is stored by two processes"
        series = ledger.series()
        here = collections.Counter()
        for number in numbers:
            index, n = number >> SERIES_SHIFT, number & (1 << SERIES_SHIFT) - 1
            assert n < series[index][0], "a span is stored that nobody began"
            here[index] += n < series[index][1]
        missing = sum(done - here[index] for index, (_, done) in enumerate(series))
        unfinished = sum(begun - done for begun, done in series)
        counted = sum(lost.values()) + ledger.unheard
        # A lost span is a begin and an end; an end whose begin found no ring closes nothing and is not counted.
        least = missing if lost["no ring"] else 2 * missing
        assert least <= counted <= 2 * (missing + unfinished + copies), (
            f"{missing} of {sum(done for _, done in series)} spans are missing, {unfinished} unfinished, "
            f"lost: {dict(lost)}, by processes without a daemon: {ledger.unheard}"
        )
        return len(numbers), counted


def work_spans(daemon, job, page=20000):
    """(number, lane) of every span "work" of a job, in pages that begin where the one before was cut."""
    found, begin_ns = [], 0
    while True:
        answer = daemon.call("GetSlices", job=job, table="span", limit=page, begin_ns=begin_ns)
        rows = [row for row in answer.get("slices", []) if int(row["start_ns"]) >= begin_ns]
        last_ns = int(rows[-1]["start_ns"]) if answer["cut"] else None
        for row in rows:
            if int(row["start_ns"]) == last_ns or row["name"] != "work":
                continue
            number = next(int(field["integer"]) for field in row["fields"] if field["name"] == "number")
            found.append((number, row["lane"]))
        if last_ns is None:
            return found
        assert last_ns > begin_ns, "a page holds more than one instant"
        begin_ns = last_ns
