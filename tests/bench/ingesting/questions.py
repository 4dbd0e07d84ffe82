# SPDX-License-Identifier: Apache-2.0
"""Latency of questions to a daemon, as a client sees it: gRPC round trips in ms, and how late a mark can be read."""

import pathlib
import random
import subprocess
import sys
import time

from ingesting.load import JOB

HERE = pathlib.Path(__file__).resolve().parent
SECOND_NS = 10**9


def timed(call, request):
    begun = time.perf_counter()
    call(request)
    return (time.perf_counter() - begun) * 1e3


def latencies(rpc, count):
    """{question: [ms]}, asked in turns at random places of the stored job."""
    messages, query = rpc.messages, rpc.query
    job = query.GetJob(messages.GetJobRequest(job=JOB))
    lanes = [t.lane for t in query.ListTracks(messages.ListTracksRequest(job=JOB)).tracks if t.kind == "thread"]
    source = random.Random(1)

    def second():
        first = job.start_node_ns + SECOND_NS
        begin = source.randrange(first, max(job.end_node_ns - 2 * SECOND_NS, first + SECOND_NS))
        return {"begin_ns": begin, "end_ns": begin + SECOND_NS}

    questions = {
        "GetSlices, 1 s of one lane": lambda: timed(
            query.GetSlices,
            messages.GetSlicesRequest(job=JOB, table="span", lanes=[source.choice(lanes)], limit=1000, **second()),
        ),
        "GetSlices, 1 s of all lanes": lambda: timed(
            query.GetSlices, messages.GetSlicesRequest(job=JOB, table="span", limit=1000, **second())
        ),
        "GetSummary, 1 s": lambda: timed(query.GetSummary, messages.GetSummaryRequest(job=JOB, **second())),
        "ListSteps, 1 s": lambda: timed(
            query.ListSteps, messages.ListStepsRequest(job=JOB, all_ranks=True, **second())
        ),
    }
    seen = {name: [] for name in questions}
    for turn in range(count + 1):
        for name, ask in questions.items():
            ms = ask()
            if turn > 0:  # the first opens files
                seen[name].append(ms)
    return seen


def lags(daemon, rpc, count):
    """ms from each mark to the first answer that holds it; asked every 10 ms."""
    command = [sys.executable, str(HERE / "marks.py"), str(count), "0.1"]
    marks = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=daemon.agent_environment(STEPSCOPE_JOB=JOB)
    )
    seen = []
    for line in marks.stdout:
        number, at = map(int, line.split())
        request = rpc.messages.GetSlicesRequest(job=JOB, table="span", begin_ns=at, limit=100000)
        while not any(
            row.name.startswith("lag") and number_of(row) == number for row in rpc.query.GetSlices(request).slices
        ):
            if time.monotonic_ns() - at > 10 * SECOND_NS:
                raise RuntimeError(f"mark {number} cannot be read after 10 s")
            time.sleep(0.01)
        seen.append((time.monotonic_ns() - at) / 1e6)
    if marks.wait(10) != 0:
        raise RuntimeError("the program that sets marks failed")
    return seen


def number_of(row):
    return next((field.integer for field in row.fields if field.name == "number"), None)
