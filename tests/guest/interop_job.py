# SPDX-License-Identifier: Apache-2.0
"""Annotates in bursts and prints each new state of the agent, until its standard input ends and SPANS are made; then flushes and
prints `flushed True|False lost N`.

    interop_job.py SPANS BURST PAUSE_SECONDS"""

import select
import sys
import time

import stepscope as ss

spans, burst, pause = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
last = None


def tell_state():
    global last
    if ss.state() != last:
        last = ss.state()
        print(last, flush=True)


def input_ended():
    return bool(select.select([sys.stdin], [], [], 0)[0])


made = 0
while made < spans or not input_ended():
    for number in range(made, made + burst if made < spans else made):
        with ss.annotate(f"work_{number}"):
            pass
    made = made + burst if made < spans else made
    wake = time.monotonic() + pause
    while time.monotonic() < wake:
        tell_state()
        time.sleep(0.002)
flushed = ss.flush(20)
tell_state()
print("flushed", flushed, "lost", ss.lost(), flush=True)
