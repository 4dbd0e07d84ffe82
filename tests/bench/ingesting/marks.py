# SPDX-License-Identifier: Apache-2.0
"""Sets numbered marks at uneven times and prints "number, node time" of each right after.

marks.py COUNT MEAN_PAUSE_SECONDS
"""

import random
import sys
import time

import stepscope as ss

count, pause = int(sys.argv[1]), float(sys.argv[2])
source = random.Random(1)
for number in range(count):
    time.sleep(pause * (0.5 + source.random()))
    at = time.monotonic_ns()
    ss.mark(f"lag_{number}")
    print(number, at, flush=True)
