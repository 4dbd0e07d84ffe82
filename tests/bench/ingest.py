# SPDX-License-Identifier: Apache-2.0
"""A real daemon under real agents: rows a second without loss, CPU a row, memory, lag, query latency, conversion to Parquet.

script/bench ingest [--rounds N] [--quick] [--full] [--write docs/measurements/ingest.md]
"""

import argparse
import os
import pathlib
import time

from ingesting.load import JOB, load
from ingesting.questions import lags, latencies
from measure.daemon import AGENTS_ONLY, Daemon, Rpc, folder
from measure.interval import estimate, verdict
from measure.machine import heading, publish, status_mb, table

RATES = [500_000, 1_000_000, 2_000_000, 3_000_000]
DAEMON_CPU, WRITER_CPU = 1, 0
LOAD_COLUMNS = [
    "rows/s",
    "runs",
    "records lost, worst run",
    "daemon CPU ns a row",
    "writers' CPU ns a row",
    "daemon RSS MB, peak",
]
PINNED = ["taskset", "-c", str(DAEMON_CPU)]


def one_load(rate, seconds):
    """A fresh daemon on one CPU, the writers on the other."""
    with folder() as work, Daemon(work / "data", *AGENTS_ONLY, prefix=PINNED) as daemon:
        return load(daemon, rate, seconds, cpus=[WRITER_CPU])


def loads(options):
    """{rate: [Loaded]}, rounds interleaved; a rate that lost rows is not tried again."""
    seen = {rate: [] for rate in options.rates}
    for number in range(options.rounds):
        for rate in options.rates:
            if any(one.lost for one in seen[rate]):
                continue
            seen[rate].append(one_load(rate, options.seconds))
            print(f"round {number + 1}/{options.rounds}: {seen[rate][-1]}", flush=True)
    return seen


def idle_memory():
    """RSS in MB and wake-ups aside, five seconds after the start: no job, every collector as by default."""
    with folder() as work, Daemon(work / "data") as daemon:
        time.sleep(5)
        return daemon.rss_mb()


def stored_job(options):
    """One job of options.rows rows: questions to it, then its conversion."""
    with folder() as work:
        with Daemon(work / "data", *AGENTS_ONLY) as daemon:
            built = load(daemon, options.build_rate, options.rows // options.build_rate)
            rpc = Rpc(daemon.facts()["grpc"], work)
            lag = lags(daemon, rpc, options.marks)
            rpc.control.EndJob(rpc.orders.EndJobRequest(job=JOB))
            asked = latencies(rpc, options.questions)
            rpc.channel.close()
        return built, lag, asked, convert(work)


def convert(work):
    """(rows, rows per CPU second) of a daemon that does nothing but upload the job to a folder in memory."""
    settings = [*AGENTS_ONLY, f"upload.url=file://{work / 'out'}", "upload.jitter_ms=0"]
    with Daemon(work / "data", *settings) as daemon:
        daemon.cli("upload", JOB, "--wait")
        cpu = daemon.cpu_s()
        rows = sum(total["rows"] for total in daemon.report(JOB)["job"]["tables"].values())
        return rows, rows / cpu, status_mb(daemon.pid, "VmHWM")


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def load_part(seen, idle_mb):
    rows = []
    for rate, runs in seen.items():
        if not runs:
            continue
        rows.append(
            [
                f"{rate:,}",
                len(runs),
                f"{max(one.lost for one in runs):,}",
                estimate([one.daemon_ns for one in runs]).text(0),
                estimate([one.writer_ns for one in runs]).text(0),
                f"{max(one.rss_mb for one in runs):.0f}",
            ]
        )
    whole = [rate for rate, runs in seen.items() if runs and not any(one.lost for one in runs)]
    best = max(whole, default=0)
    cost = estimate([one.daemon_ns for one in seen[min(r for r in seen if r >= 1_000_000)]])
    rss = max(one.rss_mb for rate in whole for one in seen[rate]) if whole else 0
    return f"""## Load

{table(LOAD_COLUMNS, rows)}

- Zero loss with the daemon on one CPU at 1,000,000 rows/s, aim 3,000,000: {met(best >= 1_000_000, best >= 3_000_000)}
  (highest rate tried without loss: {best:,}).
- Daemon CPU a row, socket to sealed, at 1,000,000 rows/s at most 400 ns, aim 200: {verdict(cost, 400, 200)}
  ({cost.low:.0f} … {cost.high:.0f}).
- Daemon RSS under the loads without loss at most 512 MB, aim 256: {met(rss <= 512, rss <= 256)} ({rss:.0f}).
- Daemon RSS idle, no tracked job, at most 60 MB, aim 40: {met(idle_mb <= 60, idle_mb <= 40)} ({idle_mb:.1f})."""


def met(floor, aim):
    return "met, aim met" if floor and aim else "met" if floor else "missed"


def stored_part(options, built, lag, asked, converted):
    rows = [[name, f"{percentile(ms, 0.5):.1f}", f"{percentile(ms, 0.99):.1f}", len(ms)] for name, ms in asked.items()]
    one_lane = percentile(asked["GetSlices, 1 s of one lane"], 0.99)
    late = percentile(lag, 0.99)
    conversion, per_second, convert_mb = converted
    size = f"a job of {built.rows:,} rows"
    small = "" if built.rows >= 10**8 else " (the budget speaks of 100,000,000: --full)"
    return f"""## {size[0].upper() + size[1:]}, written at {options.build_rate:,} rows/s

{table(["question", "p50 ms", "p99 ms", "asked"], rows)}

- Range query of 1 s of one lane in {size} at most 50 ms, aim 10: {met(one_lane <= 50, one_lane <= 10)}
  (p99 {one_lane:.1f}){small}.
- Live lag of an annotation, p99 at most 1,000 ms, aim 250: {met(late <= 1000, late <= 250)} (p50 {percentile(lag, 0.5):.0f},
  p99 {late:.0f} of {len(lag)}; asked every 10 ms, the time to ask is in it).
- Conversion to Parquet at least 2,000,000 rows/s of one core, aim 6,000,000: {met(per_second >= 2e6, per_second >= 6e6)}
  ({per_second:,.0f} rows per CPU second of the whole daemon, {conversion:,} rows, RSS {convert_mb:.0f} MB)."""


def page(options, load_average, seen, idle_mb, job):
    flags = "".join(f" --{name}" for name in ("quick", "full") if getattr(options, name))
    return f"""{heading("A daemon under load", f"script/bench ingest --rounds {options.rounds}{flags}", load_average)}
The daemon runs on CPU {DAEMON_CPU} alone, the threads that annotate on CPU {WRITER_CPU}; the agent's own thread goes where it
likes, as it does everywhere. Each run is a fresh daemon on an empty store in memory and `span_load 32 RATE {options.seconds}`:
nested spans of 32 threads of one process, three of four with a number, for {options.seconds} s after a second in which the rate
rises. Cells are medians over runs, in square brackets the 95 % bootstrap interval, in round ones the extreme runs. A run in
which stored rows are not exactly those written, less those the agent counted as lost, is an error.

{load_part(seen, idle_mb)}

{stored_part(options, *job)}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--quick", action="store_true", help="two short loads, a small job: whether it works")
    parser.add_argument("--full", action="store_true", help="a job of 100,000,000 rows")
    parser.add_argument("--write", type=pathlib.Path)
    options = parser.parse_args()
    options.rates = RATES[:2] if options.quick else RATES
    options.seconds = 1 if options.quick else 2
    options.build_rate = 500_000 if options.quick else 1_000_000
    options.rows = 10**8 if options.full else 10**6 if options.quick else 10**7
    options.marks, options.questions = (10, 5) if options.quick else (100, 100)
    load_average = os.getloadavg()[0]
    seen, idle_mb = loads(options), idle_memory()
    publish(page(options, load_average, seen, idle_mb, stored_job(options)), options.write)


if __name__ == "__main__":
    main()
