# SPDX-License-Identifier: Apache-2.0
"""The three workloads of script/bench sched. Each runs its command under a tracer and returns one number, smaller is better."""

import os
import statistics
import subprocess

from measure.machine import BUILD, ROOT

# Empty where script/bootstrap --torch has not run.
TORCH_PYTHON = os.environ.get("STEPSCOPE_TORCH_PYTHON", "")
WARM_UP_STEPS = 3


def seconds_said(command):
    """What `perf bench -f simple` measured: the time between its two ends being ready and done."""
    return float(subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout)


class Pipe:
    """Two processes on CPU 0 that hand one byte to and fro: nothing but switches, two for each round trip."""

    name = "pipe"
    unit = "s"

    def __init__(self, round_trips):
        self.switches = 2 * round_trips
        self.words = ["taskset", "-c", "0", "perf", "bench", "-f", "simple", "sched", "pipe", "-l", str(round_trips)]

    def measure(self, tracer, work):
        return seconds_said(tracer.wrap(self.words))


class Messaging:
    """Groups of 20 senders and 20 receivers over sockets, on all CPUs."""

    name = "messaging"
    unit = "s"

    def __init__(self, groups, loops):
        self.words = ["perf", "bench", "-f", "simple", "sched", "messaging", "-g", str(groups), "-l", str(loops)]

    def measure(self, tracer, work):
        return seconds_said(tracer.wrap(self.words))


class Training:
    """The demo: two gloo ranks and their loader workers; the median step."""

    name = "training"
    unit = "ms a step"

    def __init__(self, steps):
        self.words = [TORCH_PYTHON, "-m", "torch.distributed.run", "--standalone"]
        self.words += ["--nproc-per-node", "2", ROOT / "examples" / "train_ddp.py", "--steps", str(steps)]

    def measure(self, tracer, work):
        times = work / "times"
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(BUILD / "python")}
        command = tracer.wrap([*self.words, "--step-times", times])
        subprocess.run(list(map(str, command)), capture_output=True, check=True, env=environment)
        return statistics.median(int(line) for line in times.read_text().split()[WARM_UP_STEPS:]) / 1e6
