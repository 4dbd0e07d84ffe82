# SPDX-License-Identifier: Apache-2.0
"""What recording costs a training job: all CPU accounted to it, and step time with recording toggled block by block.

script/bench overhead [--rounds N] [--quick] [--write docs/measurements/overhead.md]
"""

import argparse
import os
import pathlib
import random
import statistics
import subprocess
from dataclasses import dataclass

from measure.daemon import Daemon, Rpc, folder
from measure.interval import estimate, ratio, verdict
from measure.machine import BIN, BUILD, ROOT, heading, publish, table

PYTHON = os.environ.get("STEPSCOPE_TORCH_PYTHON", "")
BPF_STATISTICS = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")
MOST_SHARE = 0.005
JOB = "bench"


def torchrun(script, *words):
    return [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script, *words]


@dataclass
class Account:
    """CPU seconds of one run."""

    job: float
    daemon: float
    sender: float
    bpf: float
    calls: float
    records: int

    @property
    def share(self):
        return (self.daemon + self.sender + self.bpf + self.calls) / self.job


class BpfTime:
    """CPU time of a daemon's eBPF programs, counted by the kernel while this is open (needs root)."""

    def __init__(self, pid):
        self._pid = pid

    def __enter__(self):
        self._before = BPF_STATISTICS.read_text()
        BPF_STATISTICS.write_text("1")
        return self

    def __exit__(self, *error):
        BPF_STATISTICS.write_text(self._before)

    def seconds(self):
        """Of the programs the daemon holds: each descriptor of one tells it (/proc/PID/fdinfo)."""
        of_program = {}
        for entry in pathlib.Path(f"/proc/{self._pid}/fdinfo").iterdir():
            fields = dict(line.split(":", 1) for line in entry.read_text().splitlines() if ":" in line)
            if "run_time_ns" in fields:  # a program's; its links have a prog_id too
                of_program[fields["prog_id"].strip()] = int(fields["run_time_ns"])
        return sum(of_program.values()) / 1e9


def ns_per_record(daemon):
    """What one annotation record costs its caller: half a begin/end pair."""
    out = subprocess.run(
        [BUILD / "tests" / "annotation_pairs", "20", "2000"],
        capture_output=True,
        text=True,
        check=True,
        env=daemon.agent_environment(STEPSCOPE_JOB="pairs"),
    ).stdout
    return statistics.median(float(line.split()[1]) for line in out.splitlines()) / 2


def account(steps):
    """One run of the annotated demo under a daemon that is up already: what all of it cost from start to last stored row."""
    with folder() as work, Daemon(work / "data") as daemon:
        record_ns = ns_per_record(daemon)
        with BpfTime(daemon.pid) as bpf:
            before = daemon.cpu_s()
            run = [BIN / "stepscope", "--data-dir", daemon.data_dir, "run", "--job", JOB, "--quiet", "--"]
            command = [*run, *torchrun(ROOT / "examples" / "train_ddp.py", "--steps", str(steps))]
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(BUILD / "python")}
            subprocess.run(list(map(str, command)), capture_output=True, check=True, env=environment)
            daemon_s, bpf_s = daemon.cpu_s() - before, bpf.seconds()
        report = daemon.report(JOB)
        if report["loss"]:
            raise RuntimeError(f"not a measurement: {report['loss']}")
        tables = report["job"]["tables"]
        # A span is two records; counters of the job lie in the same table as the node's, and are far fewer than this counts.
        records = 2 * tables["span"]["rows"]
        return Account(
            job=report["cpus"]["running_ns"] / 1e9,
            daemon=daemon_s,
            sender=report["overhead"]["sender_cpu_ns"] / 1e9,
            bpf=bpf_s,
            calls=records * record_ns / 1e9,
            records=records + tables["sched_slice"]["rows"],
        )


def block_order(blocks):
    """Pairs of a recorded and an unrecorded block, each pair in an order of its own."""
    source = random.Random(1)
    return "".join(source.choice(["rn", "nr"]) for _ in range(blocks // 2))


def toggled(blocks, steps):
    """[(ns a step recorded, ns a step not recorded)] of neighbouring blocks in one run."""
    order = block_order(blocks)
    with folder() as work, Daemon(work / "data") as daemon:
        ask, answer = work / "ask", work / "answer"
        os.mkfifo(ask)
        os.mkfifo(answer)
        rpc = Rpc(daemon.facts()["grpc"], work)
        environment = daemon.agent_environment(
            OMP_NUM_THREADS="1",
            TOGGLE_ORDER=order,
            TOGGLE_STEPS=str(steps),
            TOGGLE_ASK=str(ask),
            TOGGLE_ANSWER=str(answer),
            TOGGLE_EXAMPLES=str(ROOT / "examples"),
        )
        command = torchrun(ROOT / "tests" / "bench" / "toggling" / "train.py", "--batch", "6")
        training = subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        serve_toggles(rpc, training.pid, ask, answer)
        lines = training.communicate()[0].decode().split("\n")
        if training.returncode != 0:
            raise RuntimeError("the training failed")
    ns = [(line.split()[0], int(line.split()[1])) for line in lines if line[:2] in ("r ", "n ")]
    if "".join(letter for letter, _ in ns) != order:
        raise RuntimeError("blocks are missing")
    return [tuple(value for _, value in sorted(pair, reverse=True)) for pair in zip(ns[::2], ns[1::2])]


def serve_toggles(rpc, root_pid, ask, answer):
    """Recording is a job of the training's process tree that is begun, and ended: the kernel side and the daemon do nothing
    for a process of no job."""
    running = False
    with open(ask) as questions, open(answer, "w") as answers:
        for line in questions:
            if line.strip() == "r" and not running:
                rpc.control.StartJob(rpc.orders.StartJobRequest(name=JOB, pid=root_pid))
            if line.strip() == "n" and running:
                rpc.control.EndJob(rpc.orders.EndJobRequest(job=JOB))
            running = line.strip() == "r"
            answers.write(line)
            answers.flush()


def page(options, load, accounts, pairs):
    """accounts: {steps: the account of each run of that many steps}, the long runs first."""

    def row(who, name, digits=3):
        return [who, *(estimate([getattr(one, name) for one in runs]).text(digits) for runs in accounts.values())]

    def share(steps):
        return estimate([100 * one.share for one in accounts[steps]])

    long, short = share(options.steps), share(options.short_steps)
    rows = [
        row("the job", "job", 1),
        row("daemon", "daemon"),
        row("agents' sender threads", "sender"),
        row("eBPF programs, by the kernel's count", "bpf"),
        row("annotation calls, records × ns", "calls", 5),
    ]
    toggle = ratio([on for on, _ in pairs], [off for _, off in pairs])
    quick = " --quick" if options.quick else ""
    return f"""{heading("What recording costs a training job", f"script/bench overhead --rounds {options.rounds}{quick}", load)}

## Accounted CPU

`stepscope run -- torchrun --nproc-per-node 2 examples/train_ddp.py --steps N` beside a daemon that is up,
OMP_NUM_THREADS=1, everything recorded; {options.rounds} runs of each length, in turn. CPU seconds from the start of the command
until the last row is stored: the median over runs, in square brackets its 95 % bootstrap interval, in round ones the extremes.

{table(["who", *(f"{steps:,} steps" for steps in accounts)], rows)}

- Accounted CPU at most {100 * MOST_SHARE} % of the job's CPU, {options.steps:,} steps: {verdict(long, 100 * MOST_SHARE)}
  ({long.low:.3f} … {long.high:.3f} %).
- The beginning and the end of a job cost the same however long it is: of {options.short_steps:,} steps
  {short.low:.3f} … {short.high:.3f} %.
- {statistics.median(one.records for one in accounts[options.steps]):,.0f} records in a run of {options.steps:,} steps.

## Step time, recording toggled inside one run

{len(pairs)} pairs of a recorded and an unrecorded block, {options.block_steps} steps each, in random order within a pair;
the first step of a block, in which recording begins or ends, is left out. Recorded: a job of the process tree
(StartJob … EndJob), steps annotated.

- Step time recorded to not recorded, paired: {toggle.text(4)}: {toggle_claim(toggle)}.
- Median step: {median_ms(0, pairs):.2f} ms recorded, {median_ms(1, pairs):.2f} ms not.
"""


def median_ms(side, pairs):
    return statistics.median(pair[side] for pair in pairs) / 1e6


def toggle_claim(toggle):
    if toggle.rounds < 200:
        return "not shown, fewer than 400 blocks"
    if toggle.low <= 1 <= toggle.high:
        return "a difference is not shown"
    return f"between {100 * (toggle.low - 1):.2f} and {100 * (toggle.high - 1):.2f} % in this run"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--quick", action="store_true", help="short runs, few blocks: whether it works")
    parser.add_argument("--write", type=pathlib.Path)
    options = parser.parse_args()
    if not PYTHON:
        raise SystemExit("there is no PyTorch (script/bootstrap --torch)")
    options.steps, options.short_steps = (40, 20) if options.quick else (2000, 400)
    options.blocks, options.block_steps = (8, 3) if options.quick else (400, 4)
    load = os.getloadavg()[0]
    accounts = {options.steps: [], options.short_steps: []}
    for number in range(options.rounds):
        for steps, runs in accounts.items():
            runs.append(account(steps))
            share = f"share {100 * runs[-1].share:.3f} %"
            print(f"round {number + 1}/{options.rounds}, {steps} steps: {runs[-1]}, {share}", flush=True)
    publish(page(options, load, accounts, toggled(options.blocks, options.block_steps)), options.write)


if __name__ == "__main__":
    main()
