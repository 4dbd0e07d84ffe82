# SPDX-License-Identifier: Apache-2.0
"""A daemon that is asked to end has ended before anybody waits for it."""

import pathlib
import subprocess
import sys
import time

import pytest

ANNOTATOR = pathlib.Path(__file__).parent / "annotator.py"


@pytest.mark.parametrize("with_agent", [False, True])
def test_a_clean_stop_takes_less_than_a_second(make_daemon, with_agent, capsys):
    fastest = None
    for attempt in range(2):
        daemon = make_daemon(name=f"d{attempt}").start()
        agent = None
        if with_agent:
            agent = subprocess.Popen(
                [sys.executable, ANNOTATOR, "0", "1000000", "0.001"], stdout=subprocess.PIPE, env=daemon.agent_env()
            )
            for _ in range(100):
                agent.stdout.readline()
        began = time.monotonic()
        assert daemon.stop() == 0
        took = time.monotonic() - began
        fastest = took if fastest is None else min(fastest, took)
        if agent:
            assert agent.poll() is None
            agent.kill()
            agent.communicate()
    with capsys.disabled():
        print(f"\n  clean stop {'with' if with_agent else 'without'} an agent: {fastest:.2f} s")
    assert fastest < 1
