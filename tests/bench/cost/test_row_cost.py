# SPDX-License-Identifier: Apache-2.0
"""Bytes of a stored row, the instructions it takes, and that a daemon stores each of them, at a CPU time that is a ratio to
what zstd takes for the same ring bytes in the same run."""

import json
import subprocess

from ingesting.load import load
from measure.daemon import AGENTS_ONLY, Daemon, folder
from measure.instructions import count
from measure.machine import BUILD

# Of the made-up rows of script/bench codec, which are the same in every run; a twentieth above what they take now.
MOST_BYTES = {"sched_slice": 12.2, "span": 4.3, "counter": 3.9, "device_op": 3.7, "api_call": 3.95}
SPANS = 20_000
# From ring bytes to an encoded block; a tenth more than today.
MOST_INSTRUCTIONS = 2320
TO_BLOCK = ["stepscope::bench::DecodeRing*", "stepscope::Pipeline::Process*", "stepscope::EncodeBlock*"]
# On an idle machine 5, on a busy one up to 15: this bounds the absurd, instructions bound the rest.
MOST_TIMES_ZSTD = 40
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


def test_a_row_takes_few_instructions(capsys):
    counted, printed = count([BUILD / "tests" / "codec_bench", "store", SPANS], TO_BLOCK)
    assert int(printed) == SPANS
    with capsys.disabled():
        print(f"\n  ring to block: {counted / SPANS:.0f} instructions a row")
    assert 0 < counted / SPANS <= MOST_INSTRUCTIONS


def test_a_daemon_stores_each_row_at_a_few_times_the_cost_of_zstd(capsys):
    zstd = ns_per_row(codec_bench("ring/zstd"), "ring/zstd")
    with folder() as work, Daemon(work / "data", *AGENTS_ONLY) as daemon:
        loaded = load(daemon, RATE, SECONDS)
    with capsys.disabled():
        print(f"\n  socket to store: {loaded.daemon_ns / zstd:.1f} times zstd ({loaded.daemon_ns:.0f} ns a row)")
    assert loaded.lost == 0
    full = RATE // 32 // 100 // 4 * 4 * 32 * 100 * SECONDS
    assert full < loaded.rows < full * (SECONDS + 1) / SECONDS, "every span written is one row, load() says"
    assert loaded.daemon_ns / zstd <= MOST_TIMES_ZSTD
