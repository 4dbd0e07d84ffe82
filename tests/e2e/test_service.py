# SPDX-License-Identifier: Apache-2.0
"""The daemon as a service: what it tells its service manager, and that nothing is lost while no daemon runs."""

import collections
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import time

import pytest
from conftest import FULL, spans, wait_until
from service_supervisor import ServiceSupervisor

ANNOTATOR = pathlib.Path(__file__).parent / "annotator.py"
ROUNDS = 50 if FULL else 3
LISTENER = ["agent-socket"]


@pytest.fixture
def supervisor(short_dir):
    made = ServiceSupervisor(short_dir)
    yield made
    made.stop()


def annotate(daemon, job, count, pause=0.002):
    env = {**daemon.agent_env(), "STEPSCOPE_JOB": job}
    command = [sys.executable, ANNOTATOR, "0", str(count), str(pause), "2"]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)


def assert_all_stored_once(daemon, job, count):
    def stored():
        rows = collections.Counter((row["name"], row["number"]) for row in spans(daemon, job))
        return rows if rows.total() >= 2 * count else None

    wanted = collections.Counter((f"work{thread}", n) for thread in range(2) for n in range(count))
    assert wait_until(stored, 20, f"the spans of {job}") == wanted


def test_processes_that_end_while_no_daemon_runs_lose_nothing(make_daemon, supervisor):
    """Each round: one process ends while the daemon is dead, one lives through it, one begins and ends in between."""
    dice = random.Random(5)
    daemon = make_daemon("sched.mode=off")
    supervisor.start(daemon)
    for number in range(ROUNDS):
        ends = annotate(daemon, f"ends-{number}", 300)
        lives = annotate(daemon, f"lives-{number}", 800)
        ends.stdout.readline()
        lives.stdout.readline()
        wait_until(lambda: len(supervisor.names()) == 3, 10, "their hellos to be read: a job's name needs that")
        time.sleep(dice.uniform(0, 0.4))
        daemon.kill()
        between = annotate(daemon, f"between-{number}", 50, 0)
        assert (between.wait(30), ends.wait(30)) == (0, 0)
        supervisor.start(daemon)
        assert_all_stored_once(daemon, f"between-{number}-unseen", 50)
        assert_all_stored_once(daemon, f"ends-{number}", 300)
        assert lives.wait(30) == 0
        assert_all_stored_once(daemon, f"lives-{number}", 800)
        wait_until(lambda: supervisor.names() == LISTENER, 20, "the ring files to be let go")
    assert memory_files(daemon.process.pid) == []


def test_a_clean_restart_loses_nothing_either(make_daemon, supervisor):
    daemon = make_daemon("sched.mode=off")
    supervisor.start(daemon)
    process = annotate(daemon, "restart", 400)
    process.stdout.readline()
    assert daemon.stop() == 0
    assert process.wait(30) == 0
    supervisor.start(daemon)
    assert_all_stored_once(daemon, "restart", 400)


def memory_files(pid):
    links = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            links.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except FileNotFoundError:
            pass
    return [link for link in links if link.startswith("/memfd:")]


def test_descriptors_that_are_not_ours_are_closed(make_daemon, supervisor):
    with open("/etc/hostname") as plain:
        supervisor.park("plain", plain.fileno())
        supervisor.park("AAAAAAAAAAAAAAAAAAAAAA", os.memfd_create("unsealed"))
        supervisor.park("agent-socket", plain.fileno())
        daemon = make_daemon("sched.mode=off")
        supervisor.start(daemon)
    wait_until(lambda: supervisor.names() == LISTENER, 10, "unknown descriptors to be removed")
    assert memory_files(daemon.process.pid) == []
    assert daemon.log_text().count("that no session needs") == 2


def test_a_session_of_a_damaged_ring_file_is_let_go(make_daemon, supervisor):
    """A ring file that comes back under the name of another session is refused like one in a hello."""
    daemon = make_daemon("sched.mode=off")
    supervisor.start(daemon)
    processes = [annotate(daemon, f"swapped-{i}", 100000, 0.01) for i in range(2)]
    for process in processes:
        process.stdout.readline()
    wait_until(lambda: len(supervisor.names()) == 3, 10, "both ring files")
    daemon.kill()
    supervisor.settle()
    listener = [entry for entry in supervisor.kept if entry[0] == "agent-socket"]
    (first, a), (second, b) = [entry for entry in supervisor.kept if entry[0] != "agent-socket"]
    supervisor.kept = [*listener, (first, b), (second, a)]
    for process in processes:
        process.kill()
        process.wait()
    supervisor.start(daemon)
    wait_until(lambda: supervisor.names() == LISTENER, 10, "the swapped files to be let go")
    assert daemon.log_text().count("is not taken over") == 2
    assert memory_files(daemon.process.pid) == []


def test_the_service_manager_hears_how_the_daemon_is(make_daemon, supervisor):
    daemon = make_daemon("sched.mode=off")
    supervisor.start(daemon)
    wait_until(lambda: supervisor.said.count("WATCHDOG=1") >= 2, 10, "two pings")
    assert supervisor.said[0] == "READY=1"
    daemon.process.send_signal(signal.SIGHUP)
    wait_until(lambda: supervisor.said.count("READY=1") == 2, 10, "the reload")
    said = [state.split("\n")[0] for state in supervisor.said]
    assert said.index("RELOADING=1") == len(said) - 1 - said[::-1].index("READY=1") - 1
    assert daemon.stop() == 0
    supervisor.settle()
    assert supervisor.said[-1] == "STOPPING=1"


def test_a_daemon_that_cannot_store_says_so_and_goes_on_pinging(make_daemon, supervisor):
    daemon = make_daemon("sched.mode=off")
    supervisor.start(daemon)
    process = annotate(daemon, "full", 100000)
    process.stdout.readline()
    wait_until(lambda: "STATUS=recording" in supervisor.said, 15, "its first status")
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    wait_until(lambda: daemon.health() == 503, 15, "the failing store to be noticed")
    pings = supervisor.said.count("WATCHDOG=1")
    wait_until(
        lambda: supervisor.said.count("WATCHDOG=1") >= pings + 2, 15, "pings: a restart would lose what waits in memory"
    )
    status = [state for state in supervisor.said if state.startswith("STATUS=")]
    assert status[0] == "STATUS=recording" and "store" in status[-1]
    process.kill()
    process.wait()


def test_a_reload_takes_what_it_can_and_names_the_rest(make_daemon, short_dir):
    config = short_dir / "stepscoped.toml"
    config.write_text('[log]\nlevel = "info"\n[sched]\nmode = "off"\n')
    daemon = make_daemon(name="data")
    daemon.start(arguments=["--config", config])

    def reload(text, answer):
        config.write_text(text)
        daemon.process.send_signal(signal.SIGHUP)
        wait_until(lambda: answer in daemon.log_text(), 10, answer)

    reload('[log]\nlevel = "debug"\n[sched]\nmode = "off"\n', "SIGHUP: log.level is changed")
    reload(
        '[log]\nlevel = "debug"\n[sched]\nmode = "slices"\n',
        "SIGHUP: sched.mode has another value now; restart the daemon to apply it",
    )
    reload('[log]\nlevle = "warn"\n', 'did you mean "log.level"?')
    reload('[log]\nlevel = "loud"\n', 'log.level = "loud" is not one of debug, info, warn, error')
    assert "the configuration stays as it was" in daemon.log_text()
    assert daemon.health() == 200
