# SPDX-License-Identifier: Apache-2.0
"""One paced load of annotations on a daemon: what it cost, and whether every row of it is stored."""

import json
import subprocess
from dataclasses import dataclass

from measure.machine import BUILD, status_mb

JOB = "bench"
MOST_READ = 20_000_000


@dataclass
class Loaded:
    rate: int
    rows: int  # written and stored
    lost: int
    daemon_ns: float  # CPU a row, socket to sealed
    writer_ns: float  # CPU a row of the threads that annotate
    rss_mb: float  # largest so far


def load(daemon, rate, seconds, threads=32, cpus=()):
    """Writes rate × seconds spans by `threads` threads into an empty store. An error when what is stored is not exactly what was
    written."""
    cpu = daemon.cpu_s()
    pin = ["taskset", "-c", ",".join(map(str, cpus))] if cpus else []
    command = [*pin, BUILD / "tests" / "span_load", threads, rate, seconds]
    out = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        check=True,
        env=daemon.agent_environment(STEPSCOPE_JOB=JOB),
    ).stdout
    spans, lost, writer_ns = map(int, out.split())
    cpu = daemon.cpu_s() - cpu
    rows = spans - lost // 2  # a span is lost whole: its begin and its end
    if any(count != rows for count in stored(daemon, rows)):
        raise RuntimeError(f"{spans} spans written, {lost} records lost, {stored(daemon, rows)} rows stored")
    return Loaded(rate, rows, lost, 1e9 * cpu / rows, writer_ns / rows, status_mb(daemon.pid, "VmHWM"))


def stored(daemon, expected):
    """Span rows of the job: as the daemon counted them, and, where one summary may read that many, as it reads them back."""
    if expected > MOST_READ:
        tables = json.loads(daemon.cli("jobs", "--json"))["jobs"][0]["tables"]
        return [next(int(table["rows"]) for table in tables if table["table"] == "span")]
    report = daemon.report(JOB)
    return [report["job"]["tables"]["span"]["rows"], sum(span["count"] for span in report["spans"])]
