# SPDX-License-Identifier: Apache-2.0
"""A process that annotates numbered spans until it is killed; used by the kill tests. Prints the number of each finished span
after it ended, so the parent knows what was certainly committed.

    annotator.py FIRST COUNT PAUSE_SECONDS [THREADS]
"""

import sys
import threading
import time

import stepscope as ss

first, count, pause = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
threads = int(sys.argv[4]) if len(sys.argv) > 4 else 1


def work(thread):
    for n in range(first, first + count):
        with ss.annotate(f"work{thread}_{n}"):
            pass
        if thread == 0:
            sys.stdout.write(f"{n} {time.monotonic_ns()}\n")
            sys.stdout.flush()
        if pause:
            time.sleep(pause)


others = [threading.Thread(target=work, args=(t,)) for t in range(1, threads)]
for other in others:
    other.start()
work(0)
for other in others:
    other.join()
