# SPDX-License-Identifier: Apache-2.0
"""What recording every switch costs: stepscope beside perf sched and bpftrace, interleaved, against no tracer.

    script/bench sched [--rounds N] [--quick] [--only PART] [--write docs/measurements/sched.md]

A round runs each workload once under each tracer, in an order that moves by one each round; all output goes to memory
(/dev/shm). Figures are differences or ratios within a round: their median and the 95 % bootstrap interval of that median.
A claim whose interval contains the budget, or 1 for a ratio, reads "not shown".
"""

import argparse
import os
import pathlib
import shutil
import tempfile

from scheduling import page
from scheduling.page import HISTOGRAM, RUNQLAT
from scheduling.tracers import HERE, PerfSched, PrintingPeer, Stepscope, Unavailable, Untraced
from scheduling.workloads import TORCH_PYTHON, Messaging, Pipe, Training


def slice_tracers():
    bpftrace = ["bpftrace", HERE / "slice_fields.bt"]
    return [Untraced(), Stepscope(), PerfSched(), PrintingPeer("bpftrace", bpftrace, b"probes...\n", prints_turns=True)]


def histogram_tracers():
    """In the kernel's memory only. bcc's runqlat where it runs, otherwise the same probes under bpftrace."""
    bcc = PrintingPeer(RUNQLAT, ["runqlat-bpfcc"], b"Hit Ctrl-C", prints_turns=False)
    same = ["bpftrace", "-B", "line", HERE / "run_queue_latency.bt"]
    return [
        Stepscope(HISTOGRAM, ["sched.mode=histogram"]),
        bcc,
        PrintingPeer(RUNQLAT + " by bpftrace", same, b"\ntracing\n", prints_turns=False),
    ]


def run_once(workload, tracer):
    """One run in a folder of its own: (what the workload measured, what the tracer cost)."""
    work = pathlib.Path(tempfile.mkdtemp(prefix="ssb-", dir="/dev/shm"))
    try:
        tracer.start(work)
        return workload.measure(tracer, work), tracer.stop()
    except BaseException:
        tracer.abandon()
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def those_that_run(tracers):
    """Tries each once, which also fills caches; returns those that work and the words of those that do not."""
    usable, absent = [], {}
    for tracer in tracers:
        try:
            run_once(Pipe(1000), tracer)
            usable.append(tracer)
        except Unavailable as reason:
            absent[tracer.name] = str(reason)
            print(f"{tracer.name}: {reason}", flush=True)
    return usable, absent


def measure(workload, tracers, rounds):
    """{tracer name: [(measured, cost) per round]}"""
    results = {tracer.name: [] for tracer in tracers}
    for number in range(rounds):
        first = number % len(tracers)
        for tracer in tracers[first:] + tracers[:first]:
            results[tracer.name].append(run_once(workload, tracer))
            measured = results[tracer.name][-1][0]
            print(f"{workload.name} {number + 1}/{rounds} {tracer.name}: {measured:.3f} {workload.unit}", flush=True)
    return results


def workloads(options):
    """[(workload, rounds)]; the quick ones tell whether it works, not what it costs."""
    if options.quick:
        plan = [(Pipe(20000), options.rounds), (Messaging(4, 50), options.rounds), (Training(8), 2)]
    else:
        plan = [
            (Pipe(200000), options.rounds),
            (Messaging(10, 100), options.rounds),
            (Training(25), max(3, options.rounds // 3)),
        ]
    if not TORCH_PYTHON:
        print("training: not run, there is no PyTorch (script/bootstrap --torch)", flush=True)
        plan.pop()
    return [(workload, rounds) for workload, rounds in plan if options.only in (None, workload.name)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="small counts; training under stepscope alone, twice")
    parser.add_argument("--only", choices=["pipe", "messaging", "training"])
    parser.add_argument("--write", type=pathlib.Path)
    options = parser.parse_args()
    load = os.getloadavg()[0]

    tracers, absent = those_that_run(slice_tracers())
    in_kernel, absent_in_kernel = those_that_run(histogram_tracers())
    if any(tracer.name == RUNQLAT for tracer in in_kernel):
        in_kernel = [tracer for tracer in in_kernel if not tracer.name.startswith(RUNQLAT + " ")]
    results = {}
    for workload, rounds in workloads(options):
        chosen = tracers + (in_kernel if workload.name == "pipe" else [])
        if options.quick and workload.name == "training":
            chosen = [tracer for tracer in tracers if tracer.name in ("untraced", "stepscope")]
        results[workload.name] = (workload, measure(workload, chosen, rounds))
    text = page.page(options, load, tracers + in_kernel, absent | absent_in_kernel, results)
    print(text)
    if options.write:
        options.write.write_text(text)


if __name__ == "__main__":
    main()
