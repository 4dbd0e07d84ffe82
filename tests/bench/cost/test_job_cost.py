# SPDX-License-Identifier: Apache-2.0
"""What it costs to record a job that does little: mostly wake-ups, which is why they are counted too."""

import os
import pathlib
import subprocess
import sys
import time

import overhead
import pytest
from measure.daemon import Daemon, folder

# Of the CPU of a short training, its start included; script/bench overhead measures a long one.
MOST_SHARE = 0.02
# Of all threads of the daemon; 35 as a rule. A push each 100 ms, an acknowledgement of each, a drain each 20 ms made 400.
MOST_WAKEUPS_A_SECOND = 80
ANNOTATING = """
import time
import stepscope as ss
until = time.monotonic() + 8
while time.monotonic() < until:
    with ss.annotate("work"):
        time.sleep(0.02)
"""


def wakeups(pid):
    """Voluntary context switches of all threads so far."""
    lines = (entry / "status" for entry in pathlib.Path(f"/proc/{pid}/task").iterdir())
    return sum(int(text.read_text().split("\nvoluntary_ctxt_switches:")[1].split()[0]) for text in lines)


def test_a_quiet_job_wakes_the_daemon_seldom(capsys):
    with folder() as work, Daemon(work / "data") as daemon:
        environment = daemon.agent_environment(STEPSCOPE_JOB="quiet")
        ranks = [subprocess.Popen([sys.executable, "-c", ANNOTATING], env=environment) for _ in range(4)]
        time.sleep(3)
        before = wakeups(daemon.pid)
        time.sleep(4)
        a_second = (wakeups(daemon.pid) - before) / 4
        assert [rank.wait() for rank in ranks] == [0] * 4
        spans = daemon.report("quiet")["job"]["tables"]["span"]["rows"]
    with capsys.disabled():
        print(f"\n  four processes with 50 spans a second: {a_second:.0f} wake-ups a second")
    assert spans > 4 * 8 * 10
    assert a_second <= MOST_WAKEUPS_A_SECOND


@pytest.mark.skipif(not overhead.PYTHON, reason="no PyTorch: script/bootstrap --torch provides one")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may count the time of eBPF programs")
def test_a_training_is_recorded_for_little_cpu(capsys):
    account = overhead.account(60)
    with capsys.disabled():
        print(f"\n  {100 * account.share:.2f} % of a training of 60 steps: {account}")
    assert account.share <= MOST_SHARE
