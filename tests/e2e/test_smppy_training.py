# SPDX-License-Identifier: Apache-2.0
"""Scripts written for SageMaker Profiler, unchanged, through a real daemon to the report."""

import json
import sys
from collections import Counter

import pytest
from conftest import FULL, TORCH_PYTHON, stepscope

# The loop of the developer guide around DistributedDataParallel, one window per epoch. The model goes before the process group:
# else gloo's threads abort PyTorch where the interpreter ends first (8 of 50 runs on two busy CPUs, without stepscope).
DDP = """
import gc, os, sys
import smppy
import torch
import torch.distributed as dist
from smppy import SMProfiler
from torch.nn.parallel import DistributedDataParallel


def main():
    epochs, steps = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    net = DistributedDataParallel(torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    profiler = SMProfiler.instance()
    config = smppy.Config()
    config.profiler = {"EnableCuda": "1"}
    profiler.configure(config)
    for epoch in range(epochs):
        profiler.start_profiling()
        for i in range(steps):
            with smppy.annotate("step_" + str(i)):
                optimizer.zero_grad()
                with smppy.annotate("Forward"):
                    outputs = net(torch.ones(4, 8))
                with smppy.annotate("Loss"):
                    loss = outputs.square().mean()
                with smppy.annotate("Backward"):
                    loss.backward()
                with smppy.annotate("Optimizer"):
                    optimizer.step()
        profiler.stop_profiling()
    del net, optimizer, outputs, loss
    gc.collect()
    dist.destroy_process_group()


main()
"""

# What one process may do besides, right and wrong: a callback with tokens, decorator, threads, unbalanced windows.
SHAPES = """
import threading
import smprof as smppy

profiler = smppy.SMProfiler.instance()
profiler.stop_profiling()
class ProfilerCallback:
    def on_train_batch_begin(self, batch, logs=None):
        if batch == 2: profiler.start_profiling()
        self.token = smppy.annotation_begin("step_" + str(batch))
    def on_train_batch_end(self, batch, logs=None):
        smppy.annotation_end(self.token)
        if batch == 4: profiler.stop_profiling()
callback = ProfilerCallback()
for batch in range(6):
    callback.on_train_batch_begin(batch)
    callback.on_train_batch_end(batch)
@smppy.annotate("Load")
def load(): pass
threads = [threading.Thread(target=load) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
first, second = smppy.annotation_begin("First"), smppy.annotation_begin("Second")
smppy.annotation_end(first)
smppy.annotation_end(second)
profiler.start_profiling()
profiler.start_profiling()
profiler.stop_profiling()
profiler.stop_profiling()
"""


def report_of(data_dir, *command):
    """The JSON report of a command recorded by a private daemon."""
    run = stepscope("run", "--job", "j", "--", *command, data_dir=data_dir, env={"OMP_NUM_THREADS": "1"})
    assert run.returncode == 0, run.stdout + run.stderr
    report = stepscope("report", "j", "--format", "json", data_dir=data_dir)
    assert report.returncode == 0, report.stderr
    return json.loads(report.stdout)


def counts(report):
    """{(rank, name, kind): spans}, the hooks' own left out."""
    found = Counter()
    for span in report["spans"]:
        if span["domain"] in ("user", "step", "window"):
            found[span["rank"], span["name"], span["domain"]] += span["count"]
    return found


@pytest.mark.skipif(not TORCH_PYTHON, reason="no PyTorch: script/bootstrap --torch provides one")
def test_ddp_training_with_a_window_per_epoch(short_dir):
    epochs, steps = (20, 100) if FULL else (2, 4)
    script = short_dir / "train.py"
    script.write_text(DDP)
    torchrun = [TORCH_PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    report = report_of(short_dir / "data", *torchrun, script, epochs, steps)

    assert [rank["rank"] for rank in report["job"]["ranks"]] == [0, 1]
    assert report["job"]["facts"]["launcher.nodes"] == "1"
    each = epochs * steps
    wanted = {"window": ("window", epochs), "step": ("step", each)}
    wanted.update(dict.fromkeys(("Forward", "Loss", "Backward", "Optimizer"), ("user", each)))
    assert counts(report) == {(rank, name, kind): n for name, (kind, n) in wanted.items() for rank in (0, 1)}
    for rank in (0, 1):
        own = [step for step in report["steps"] if step["rank"] == rank]
        assert [step["number"] for step in own] == list(range(steps)) * epochs
        assert {step["source"] for step in own} == {"user"}
        window_ns = sum(s["total_ns"] for s in report["spans"] if (s["rank"], s["domain"]) == (rank, "window"))
        inside_ns = sum(s["total_ns"] for s in report["spans"] if (s["rank"], s["domain"]) == (rank, "user"))
        steps_ns = sum(step["dur_ns"] for step in own)
        assert 0 < inside_ns <= steps_ns <= window_ns
    assert [loss for loss in report["loss"] if loss["stage"] != "sampler"] == []


def test_callbacks_tokens_threads_and_misuse(short_dir):
    script = short_dir / "shapes.py"
    script.write_text(SHAPES)
    report = report_of(short_dir / "data", sys.executable, script)
    found = Counter()
    for (_, name, kind), n in counts(report).items():
        found[name, kind] += n
    assert found == {
        ("step", "step"): 6,
        ("window", "window"): 2,
        ("Load", "user"): 4,
        ("First", "user"): 1,
        ("Second", "user"): 1,
    }
    assert sorted(step["number"] for step in report["steps"]) == list(range(6))
    assert [loss for loss in report["loss"] if loss["stage"] != "sampler"] == []
