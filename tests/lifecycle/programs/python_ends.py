# SPDX-License-Identifier: Apache-2.0
"""A Python program whose threads annotate until it ends in one of Python's ways.

python_ends.py ROUTE
"""

import mmap
import os
import signal
import struct
import sys
import threading

import stepscope as ss

SHIFT, HEADER = 40, 256
with open(os.environ["LIFECYCLE_LEDGER"], "r+b") as file:
    ledger = mmap.mmap(file.fileno(), 0)


def annotate(series, times):
    for n in range(times):
        at = HEADER + 16 * series
        struct.pack_into("<Q", ledger, at, n + 1)
        with ss.annotate(f"work_{series << SHIFT | n}"):
            pass
        struct.pack_into("<Q", ledger, at + 8, n + 1)
        if n == 20:
            ready.release()


ready = threading.Semaphore(0)
struct.pack_into("<Q", ledger, 0, 3)
for series in (1, 2):
    threading.Thread(target=annotate, args=(series, 1 << 30), daemon=True).start()
ready.acquire()
ready.acquire()
annotate(0, 20)
sys.stdout.write("buffered")
route = sys.argv[1]
if route == "os._exit":
    os._exit(23)
if route == "sys.exit":
    sys.exit(24)
if route == "uncaught":
    raise RuntimeError("on purpose")
if route == "sigterm":
    os.kill(os.getpid(), signal.SIGTERM)
if route == "fork":
    child = os.fork()
    if child == 0:
        os._exit(25)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
