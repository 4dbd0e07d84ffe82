# SPDX-License-Identifier: Apache-2.0
"""The same training under nothing, stepscope and torch.profiler, interleaved in one run: step time, total time, bytes written.

    script/bench demo [--rounds N] [--steps N] [--write docs/measurements/demo.md]

A ratio is of medians over rounds; its spread is the smallest and largest ratio of neighbouring runs. A ratio whose spread
contains 1 reads "not shown": this machine cannot tell it from no effect.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

from measure.machine import BIN, ROOT, heading

PYTHON = os.environ["STEPSCOPE_TORCH_PYTHON"]
WARM_UP = 5


def training(steps, times, *extra):
    return [
        PYTHON,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        ROOT / "examples" / "train_ddp_plain.py",
        "--steps",
        str(steps),
        "--step-times",
        times,
        *extra,
    ]


def run_none(work, steps):
    return training(steps, work / "times"), None


def run_stepscope(work, steps):
    return [
        BIN / "stepscope",
        "--data-dir",
        work / "data",
        "run",
        "--job",
        "bench",
        "--quiet",
        "--",
        *training(steps, work / "times"),
    ], work / "data"


def run_torch_profiler(work, steps):
    return training(steps, work / "times", "--profiler", "torch", "--profiler-dir", work / "profile"), work / "profile"


MODES = {"none": run_none, "stepscope": run_stepscope, "torch.profiler": run_torch_profiler}


def measure(mode, steps):
    work = pathlib.Path(tempfile.mkdtemp(prefix="ssb-"))
    try:
        command, _ = MODES[mode](work, steps)
        begun = time.monotonic()
        subprocess.run(
            list(map(str, command)),
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        total = time.monotonic() - begun
        step_ns = [int(line) for line in (work / "times").read_text().split()][WARM_UP:]
        return {"step_ms": statistics.median(step_ns) / 1e6, "total_s": total, **written(mode, work)}
    finally:
        shutil.rmtree(work, ignore_errors=True)


def written(mode, work):
    if mode == "torch.profiler":
        files = [p for p in (work / "profile").rglob("*") if p.is_file()]
        events = sum(count_events(p) for p in files)
        return {"bytes": sum(p.stat().st_size for p in files), "events": events}
    if mode == "stepscope":
        report = subprocess.run(
            [BIN / "stepscope", "--data-dir", work / "data", "report", "bench", "--format", "json"],
            capture_output=True,
            text=True,
            check=True,
        )
        tables = json.loads(report.stdout)["job"]["tables"].values()
        return {"bytes": sum(t["stored_bytes"] for t in tables), "events": sum(t["rows"] for t in tables)}
    return {"bytes": 0, "events": 0}


def count_events(path):
    import gzip

    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt") as file:
        return len(json.load(file)["traceEvents"])


def ratio(results, mode, key):
    pairs = [m[key] / n[key] for m, n in zip(results[mode], results["none"])]
    middle = statistics.median(m[key] for m in results[mode]) / statistics.median(n[key] for n in results["none"])
    note = " (not shown)" if min(pairs) <= 1 <= max(pairs) else ""
    return f"{middle:.3f} [{min(pairs):.3f} … {max(pairs):.3f}]{note}"


def table(results):
    lines = ["| | none | stepscope | torch.profiler |", "| --- | --- | --- | --- |"]
    median = {mode: {key: statistics.median(r[key] for r in rows) for key in rows[0]} for mode, rows in results.items()}
    modes = list(MODES)
    lines.append("| step time, median | " + " | ".join(f"{median[m]['step_ms']:.1f} ms" for m in modes) + " |")
    lines.append(
        "| step time, ratio to none | 1 | " + " | ".join(ratio(results, m, "step_ms") for m in modes[1:]) + " |"
    )
    lines.append("| whole run, median | " + " | ".join(f"{median[m]['total_s']:.2f} s" for m in modes) + " |")
    lines.append(
        "| whole run, ratio to none | 1 | " + " | ".join(ratio(results, m, "total_s") for m in modes[1:]) + " |"
    )
    lines.append("| bytes written | 0 | " + " | ".join(f"{median[m]['bytes']:,.0f}" for m in modes[1:]) + " |")
    lines.append("| rows or events | 0 | " + " | ".join(f"{median[m]['events']:,.0f}" for m in modes[1:]) + " |")
    lines.append(
        "| bytes per row or event | | "
        + " | ".join(f"{median[m]['bytes'] / max(median[m]['events'], 1):.1f}" for m in modes[1:])
        + " |"
    )
    return "\n".join(lines)


def page(options, load, results):
    command = f"script/bench demo --rounds {options.rounds} --steps {options.steps}"
    return f"""{heading("The demo training under nothing, stepscope and torch.profiler", command, load)}
Training: `torchrun --nproc-per-node 2 examples/train_ddp_plain.py --steps {options.steps}` (two gloo ranks,
four loader workers in all, OMP_NUM_THREADS=1). The three run after one another in each of {options.rounds} rounds; the first
{WARM_UP} steps of a run are left out of the step time. Ratios are of medians, in brackets the smallest and largest ratio of
runs of one round; "not shown" where that interval contains 1.

{table(results)}

- stepscope: every slice of every thread, steps, data loading, optimizer; bytes are those of its stored blocks. Its whole-run time
  includes starting a private daemon, ending the job and storing the last row.
- torch.profiler: `torch.profiler.profile()` over all steps with CPU activities, `export_chrome_trace` to .json.gz, one file
  per rank. The peer command is the training command with `--profiler torch --profiler-dir DIR`.
- The two do not record the same things (kernel scheduling and steps here, every PyTorch operator there): bytes per event compare
  the cost of a record, not of the same information.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--write", type=pathlib.Path)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    results = {mode: [] for mode in MODES}
    for number in range(options.rounds):
        for mode in MODES:
            results[mode].append(measure(mode, options.steps))
            print(f"round {number + 1}/{options.rounds} {mode}: {results[mode][-1]}", flush=True)
    text = page(options, load, results)
    print(text)
    if options.write:
        options.write.write_text(text)


if __name__ == "__main__":
    main()
