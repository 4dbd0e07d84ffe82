# SPDX-License-Identifier: Apache-2.0
"""What script/bench sched runs a workload under: nothing, stepscope, and the peers. Start returns once it records; Stop says
what it stored and what it cost itself, the workload's own CPU time left out.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass

from measure.machine import BIN, cpu_seconds

HERE = pathlib.Path(__file__).resolve().parent
# Enough switches to make any of them print, over in a hundredth of a second.
PRIMER = ["perf", "bench", "-f", "simple", "sched", "pipe", "-l", "2000"]


@dataclass
class Cost:
    """Of one run. `recorded` and `lost` are None where the tracer does not say."""

    cpu_s: float = 0.0
    setup_cpu_s: float = 0.0
    rss_mb: float = 0.0
    stored_bytes: int = 0
    on_disk_bytes: int = 0
    recorded: int | None = None
    lost: int | None = None


class Unavailable(Exception):
    """This tracer cannot run here; the text says why."""


def size_on_disk(folder):
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*"))


class Untraced:
    name = "untraced"

    def command(self, work):
        return []

    def start(self, work):
        pass

    def wrap(self, command):
        return command

    def stop(self):
        return Cost()

    def abandon(self):
        pass


class Process:
    """A tracer that is a process of its own beside the workload."""

    process = None
    setup_cpu_s = 0.0

    def start(self, work):
        self.work = work
        self.log = work / "log"
        if not shutil.which(str(self.command(work)[0])):
            raise Unavailable(f"not installed: {self.command(work)[0]} (script/bootstrap --full)")
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen(
                [str(word) for word in self.command(work)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        deadline = time.monotonic() + 60
        while not self.ready():
            if self.process.poll() is not None:
                raise Unavailable(f"does not run here: {self.last_words()}")
            if time.monotonic() > deadline:
                raise Unavailable(f"records nothing after 60 s: {self.last_words()}")
            time.sleep(0.02)
        self.setup_cpu_s = cpu_seconds(self.process.pid)

    def wrap(self, command):
        return command

    def abandon(self):
        if self.process is not None and self.process.poll() is None:
            self.end(signal.SIGKILL)

    def last_words(self):
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1].strip() if lines else "no word"

    def end(self, number):
        """Ends it and returns what it used."""
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.name} ended before it was stopped: {self.last_words()}")
        self.process.send_signal(number)
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return Cost(
            cpu_s=usage.ru_utime + usage.ru_stime,
            setup_cpu_s=self.setup_cpu_s,
            rss_mb=usage.ru_maxrss / 1024,
        )


class Stepscope(Process):
    """A daemon of its own on an empty store; the workload is its one job."""

    def __init__(self, name="stepscope", settings=()):
        self.name = name
        self.settings = settings

    def command(self, work):
        settings = [word for setting in self.settings for word in ("--set", setting)]
        ports = ["--port", "0", "--http-port", "0"]
        return [BIN / "stepscoped", "--private", "--data-dir", work / "data", *ports, *settings]

    def wrap(self, command):
        run = [BIN / "stepscope", "--data-dir", self.work / "data", "run", "--job", "bench", "--quiet", "--"]
        return [*run, *command]

    def ready(self):
        try:
            return json.loads((self.work / "data" / "daemon.json").read_text())["pid"] == self.process.pid
        except (OSError, ValueError):
            return False

    def stop(self):
        report = self.report()
        cost = self.end(signal.SIGTERM)
        tables = report["job"]["tables"]
        cost.stored_bytes = sum(table["stored_bytes"] for table in tables.values())
        cost.on_disk_bytes = size_on_disk(self.work / "data")
        cost.recorded = tables.get("sched_slice", {}).get("rows", 0)
        cost.lost = sum(max(1, entry["count"]) for entry in report["loss"])
        return cost

    def report(self):
        command = [BIN / "stepscope", "--data-dir", self.work / "data", "report", "bench", "--format", "json"]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


class PerfSched(Process):
    """perf sched record, told when to begin and asked whether it has, through its control pipes."""

    name = "perf sched record"

    def command(self, work):
        return ["perf", "sched", "record", "-o", work / "perf.data", "--control", f"fifo:{work / 'ctl'},{work / 'ack'}"]

    def start(self, work):
        self.pipes = []
        for name in ("ctl", "ack"):
            os.mkfifo(work / name)
            self.pipes.append(os.open(work / name, os.O_RDWR | os.O_NONBLOCK))
        os.write(self.pipes[0], b"ping\n")
        super().start(work)

    def ready(self):
        try:
            return b"ack" in os.read(self.pipes[1], 64)
        except BlockingIOError:
            return False

    def stop(self):
        cost = self.end(signal.SIGINT)
        for pipe in self.pipes:
            os.close(pipe)
        cost.stored_bytes = (self.work / "perf.data").stat().st_size
        cost.on_disk_bytes = size_on_disk(self.work)
        stats = subprocess.run(
            ["perf", "report", "-i", self.work / "perf.data", "--stats"], capture_output=True, text=True, check=True
        ).stdout
        switches = re.search(r"sched:sched_switch stats:\s+SAMPLE events:\s+(\d+)", stats)
        cost.recorded = int(switches.group(1)) if switches else 0
        lost = re.search(r"LOST_SAMPLES events:\s+(\d+)|LOST events:\s+(\d+)", stats)
        cost.lost = int(lost.group(1) or lost.group(2)) if lost else 0
        return cost


class PrintingPeer(Process):
    """A tracer whose output is what it prints; it records once it has said `begun`."""

    def __init__(self, name, words, begun, prints_turns):
        self.name = name
        self.words = words
        self.begun = begun
        self.prints_turns = prints_turns

    def command(self, work):
        return self.words

    def ready(self):
        subprocess.run(PRIMER, stdout=subprocess.DEVNULL, check=True)
        text = self.log.read_bytes()
        self.before_bytes = len(text)
        return self.begun in text

    def stop(self):
        cost = self.end(signal.SIGINT)
        text = self.log.read_bytes()[self.before_bytes :]
        cost.stored_bytes = cost.on_disk_bytes = len(text)
        if self.prints_turns:
            cost.recorded = text.count(b"\n")
            cost.lost = sum(int(count) for count in re.findall(rb"Lost (\d+) events", text))
        return cost
