# SPDX-License-Identifier: Apache-2.0
"""Bytes of a stored row, and the daemon's CPU for it as a ratio to what zstd takes for the same ring bytes in the same run."""

import json
import subprocess

from ingesting.load import load
from measure.daemon import AGENTS_ONLY, Daemon, folder
from measure.machine import BUILD

# Of the made-up rows of script/bench codec, which are the same in every run; a twentieth above what they take now.
MOST_BYTES = {"sched_slice": 12, "span": 5, "counter": 5, "device_op": 6, "api_call": 6}
# Measured 2.2 and 4 on an idle machine.
MOST_RATIO_IN_PROCESS = 4
MOST_RATIO_OF_DAEMON = 10
RATE, SECONDS = 200_000, 2


def codec_bench(pattern, seconds=0.02):
    command = [BUILD / "tests" / "codec_bench", f"--benchmark_filter={pattern}", "--benchmark_format=json"]
    out = subprocess.run(
        [*map(str, command), f"--benchmark_min_time={seconds}"], capture_output=True, text=True, check=True
    ).stdout
    runs = json.loads(out)["benchmarks"]
    assert not any(run.get("error_occurred") for run in runs), runs
    return {run["run_name"]: run for run in runs}


def ns_per_row(runs, name):
    return 1e9 / runs[name]["items_per_second"]


def test_a_stored_row_is_small(capsys):
    runs = codec_bench("encode/.*/65536", 0.001)
    stored = {name.split("/")[1]: run["bytes"] for name, run in runs.items()}
    with capsys.disabled():
        print("\n  bytes a row: " + ", ".join(f"{shape} {count:.2f}" for shape, count in stored.items()))
    assert stored.keys() == MOST_BYTES.keys()
    assert {shape: count for shape, count in stored.items() if count > MOST_BYTES[shape]} == {}


def test_a_daemon_stores_each_row_at_a_few_times_the_cost_of_zstd(capsys):
    runs = codec_bench("ring/(decode|store|zstd)")
    zstd = ns_per_row(runs, "ring/zstd")
    in_process = (ns_per_row(runs, "ring/decode") + ns_per_row(runs, "ring/store/process_time")) / zstd
    with folder() as work, Daemon(work / "data", *AGENTS_ONLY) as daemon:
        loaded = load(daemon, RATE, SECONDS)
    with capsys.disabled():
        print(
            f"\n  zstd {zstd:.0f} ns a row; ring to store {in_process:.1f} times that,"
            f" a daemon from its socket on {loaded.daemon_ns / zstd:.1f} times ({loaded.daemon_ns:.0f} ns)"
        )
    assert loaded.lost == 0
    assert loaded.rows == RATE // 32 // 100 // 4 * 4 * 32 * 100 * SECONDS, "every span written is one row"
    assert in_process <= MOST_RATIO_IN_PROCESS
    assert loaded.daemon_ns / zstd <= MOST_RATIO_OF_DAEMON
