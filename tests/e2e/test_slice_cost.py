# SPDX-License-Identifier: Apache-2.0
"""What one stored turn costs in bytes, and that none is lost, at the fastest switching a program can do.

Bytes and losses are the same on a busy machine; what they cost in time is measured by script/bench sched.
"""

import json

import pytest
from conftest import stepscope

ROUND_TRIPS = 20000
# A turn with its wait, waker and counters. The design asks for 8 on an idle machine; preemption by others makes times less even.
MOST_BYTES_PER_SLICE = 12

PIPE = ["perf", "bench", "-f", "simple", "sched", "pipe", "-l", str(ROUND_TRIPS)]


@pytest.mark.parametrize(
    "command",
    [pytest.param(["taskset", "-c", "0", *PIPE], id="both ends on one CPU"), pytest.param(PIPE, id="on any CPU")],
)
def test_a_stored_turn_is_small_and_none_is_lost(daemon, command):
    assert stepscope("run", "--job", "pipe", "--", *command, data_dir=daemon.data_dir).returncode == 0
    report = json.loads(stepscope("report", "pipe", "--format", "json", data_dir=daemon.data_dir).stdout)
    slices = report["job"]["tables"]["sched_slice"]
    assert report["loss"] == []
    # Unpinned, a byte may already be there when its reader asks: then nobody waits and nobody switches.
    assert slices["rows"] >= 2 * ROUND_TRIPS if "taskset" in command else slices["rows"] >= 1000
    per_slice = slices["stored_bytes"] / slices["rows"]
    print(f"{per_slice:.2f} bytes a slice over {slices['rows']} slices")
    assert 0 < per_slice <= MOST_BYTES_PER_SLICE
