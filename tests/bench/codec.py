# SPDX-License-Identifier: Apache-2.0
"""Bytes and CPU per row of our blocks beside Parquet and Arrow IPC, and of the way from ring records to the store.

script/bench codec [--rounds N] [--quick] [--write docs/measurements/codec.md]
"""

import argparse
import json
import os
import pathlib
import subprocess

from encoding import peers
from measure.daemon import folder
from measure.interval import estimate, ratio, verdict
from measure.machine import BUILD, heading, publish, table

PROGRAM = BUILD / "tests" / "codec_bench"
OURS = "block"
# {shape: (what its rows are called, floor, aim), bytes a row}
BYTES = {
    "sched_slice": ("turn with its wait", 8, 5),
    "device_op": ("GPU row", 6, 4.6),
    "api_call": ("API row", 6, 4.6),
}
SHAPES = ["sched_slice", "span", "counter", "device_op", "api_call"]


def our_round(seconds):
    """{benchmark: (CPU ns a row, bytes a row)}"""
    command = [PROGRAM, "--benchmark_format=json", f"--benchmark_min_time={seconds}"]
    out = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout
    runs = json.loads(out)["benchmarks"]
    failed = [run["error_message"] for run in runs if run.get("error_occurred")]
    if failed:
        raise RuntimeError(", ".join(failed))
    return {run["run_name"]: (1e9 / run["items_per_second"], run["bytes"]) for run in runs}


def tables_of(work):
    made = {}
    for shape in SHAPES:
        path = work / shape
        command = [PROGRAM, "rows", shape, str(peers.BLOCK_ROWS), path]
        names = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout.split()
        made[shape] = peers.lane_ordered(path, ["lane", *names])
    return made


def measure(options):
    ours, theirs = [], []
    with folder() as work:
        os.environ["TMPDIR"] = str(work)  # the store of ring/store
        tables = tables_of(work)
        for number in range(options.rounds):
            ours.append(our_round(options.seconds))
            theirs.append({shape: peers.measure(rows) for shape, rows in tables.items()})
            print(f"round {number + 1}/{options.rounds}", flush=True)
    return ours, theirs, {shape: peers.ideal_bytes(rows) for shape, rows in tables.items()}


def format_rows(shape, ours, theirs):
    encode, decode = f"encode/{shape}/{peers.BLOCK_ROWS}", f"decode/{shape}/{peers.BLOCK_ROWS}"
    yield [
        shape,
        OURS,
        f"{ours[0][encode][1]:.2f}",
        estimate([seen[encode][0] for seen in ours]).text(0),
        estimate([seen[decode][0] for seen in ours]).text(0),
    ]
    for name in peers.FORMATS:
        seen = [row[shape][name] for row in theirs]
        yield [
            "",
            name,
            f"{seen[0]['bytes']:.2f}",
            estimate([row["encode_ns"] for row in seen]).text(0),
            estimate([row["decode_ns"] for row in seen]).text(0),
        ]


def byte_claims(ours, ideal):
    for shape, (what, floor, aim) in BYTES.items():
        stored = ours[0][f"encode/{shape}/{peers.BLOCK_ROWS}"][1]
        said = "missed" if stored > floor else "met, aim met" if stored <= aim else "met"
        yield (
            f"- Bytes of a {what} at most {floor}, aim {aim}: {said} ({stored:.2f}; made-up rows, the same in every run; an ideal"
            f" code of each column's best residual would take {ideal[shape]:.2f})."
        )


def ring_part(ours):
    def ns(name):
        return [seen[name][0] for seen in ours]

    names = {"ring/write": "write a begin/end pair", "ring/decode": "decode it into a row"}
    names["ring/store/process_time"] = "place, intern, roll up, encode, commit the row"
    names["ring/zstd"] = "for scale: zstd 1 of the ring's bytes"
    rows = [[text, estimate(ns(name)).text(1)] for name, text in names.items()]
    whole = estimate([a + b for a, b in zip(ns("ring/decode"), ns("ring/store/process_time"))])
    against = ratio([a + b for a, b in zip(ns("ring/decode"), ns("ring/store/process_time"))], ns("ring/zstd"))
    return f"""## From ring to store, one span

{table(["step", "CPU ns"], rows)}

- Ring bytes to sealed at most 400 ns a row, aim 200: {verdict(whole, 400, 200)} ({whole.low:.0f} … {whole.high:.0f});
  {against.text()} times what zstd 1 of the ring's bytes costs. The socket is in script/bench ingest.
- {ours[0]["ring/decode"][1]:.1f} bytes a span in the ring, {ours[0]["ring/store/process_time"][1]:.1f} stored."""


def page(options, load, ours, theirs, ideal):
    formats = [row for shape in SHAPES for row in format_rows(shape, ours, theirs)]
    quick = " --quick" if options.quick else ""
    claims = "\n".join(byte_claims(ours, ideal))
    return f"""{heading("Bytes and CPU per stored row", f"script/bench codec --rounds {options.rounds}{quick}", load)}
pyarrow {peers.pyarrow.__version__}, one thread. Rows are made up (`tests/bench/encoding/rows.h` says how),
{peers.BLOCK_ROWS:,} of them in one block, row group or record batch, in lane order. Cells are CPU ns a row: the median over
rounds, in square brackets its 95 % bootstrap interval, in round ones the extreme rounds. Bytes are the same in every round.

| rows | format | bytes a row | encode ns | decode ns |
| --- | --- | --- | --- | --- |
{chr(10).join("| " + " | ".join(row) + " |" for row in formats)}

{claims}

{ring_part(ours)}

- Encoding a block sorts its rows into lane order first; Parquet and Arrow are given sorted rows. Arrow reads into its
  own columns.
- Command: `codec_bench --benchmark_min_time={options.seconds}`, once a round.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--quick", action="store_true", help="short runs: whether it works, not what it costs")
    parser.add_argument("--write", type=pathlib.Path)
    options = parser.parse_args()
    options.seconds = 0.01 if options.quick else 0.05
    load = os.getloadavg()[0]
    publish(page(options, load, *measure(options)), options.write)


if __name__ == "__main__":
    main()
