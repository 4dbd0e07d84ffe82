# SPDX-License-Identifier: Apache-2.0
"""What a ring accepted is soon in the store, and once. The number split off each span's name proves it (kills: tests/faults)."""

import collections
import pathlib
import subprocess
import sys
import time

from conftest import FULL, spans, wait_until

ANNOTATOR = pathlib.Path(__file__).parent / "annotator.py"


def start_annotator(daemon, first, count, pause=0.0, threads=1, env=None):
    return subprocess.Popen(
        [sys.executable, ANNOTATOR, str(first), str(count), str(pause), str(threads)],
        text=True,
        env=env or daemon.agent_env(),
        stdout=subprocess.PIPE,
    )


def numbers_of(daemon, name, job="last"):
    return collections.Counter(r["number"] for r in spans(daemon, job) if r["name"] == name)


def test_an_annotation_is_in_an_answer_within_a_second(daemon, capsys):
    """p99 of (first seen in an answer - ended), asked as fast as answers come."""
    process = start_annotator(daemon, 0, 150 if FULL else 60, 0.05)
    ended = {}
    seen = {}
    reader = iter(process.stdout.readline, "")
    import threading

    def read():
        for line in reader:
            number, at = line.split()
            ended[int(number)] = int(at)

    thread = threading.Thread(target=read)
    thread.start()
    wait_until(lambda: ended, 20, "the first span")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (thread.is_alive() or set(ended) - set(seen)):
        try:
            rows = spans(daemon)
        except Exception:
            rows = []
        now = time.monotonic_ns()
        for row in rows:
            seen.setdefault(row["number"], now)
    thread.join()
    process.wait()
    lags = sorted(seen[n] - ended[n] for n in ended)
    p99 = lags[min(len(lags) - 1, int(len(lags) * 0.99))] / 1e6
    median = lags[len(lags) // 2] / 1e6
    with capsys.disabled():
        print(
            f"\n  live lag of {len(lags)} annotations, grpcurl's start included: median {median:.0f} ms, p99 {p99:.0f} ms"
        )
    assert p99 <= 1000


def test_forked_children_that_exit_at_once_are_recorded(daemon):
    script = (
        "import os, stepscope as ss\n"
        "with ss.annotate('parent'): pass\n"
        "for n in range(5):\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        with ss.annotate(f'child_{n}'): pass\n"
        "        os._exit(0)\n"
        "    os.waitpid(pid, 0)\n"
    )
    subprocess.run([sys.executable, "-c", script], env=daemon.agent_env(), check=True)
    wait_until(lambda: sum(numbers_of(daemon, "child").values()) == 5, 10, "the children's spans")
    assert set(numbers_of(daemon, "child")) == set(range(5))
