# SPDX-License-Identifier: Apache-2.0
"""deploy/systemd/stepscoped.service under a real systemd, booted in namespaces of its own: the unit works with all of its
hardening, and descriptors are kept as tests/e2e/service_supervisor.py pretends. Only with --full: it mounts.
"""

import collections
import json
import re
import subprocess
import sys

import pytest
from conftest import BIN, BUILD, ROOT, spans, wait_until

pytestmark = pytest.mark.full

ANNOTATOR = ROOT / "tests/e2e/annotator.py"
UNIT = ROOT / "deploy/systemd/stepscoped.service"


class Systemd:
    """A booted systemd; run(command) executes inside it."""

    def __init__(self, folder):
        self.folder = folder
        units = folder / "units"
        (units / "stepscoped.service.d").mkdir(parents=True)
        (units / "test.target").write_text("[Unit]\nDefaultDependencies=no\n")
        for name in ("sysinit.target", "basic.target", "shutdown.target", "multi-user.target"):
            (units / name).write_text("[Unit]\nDefaultDependencies=no\n")
        (units / "stepscoped.service").write_text(UNIT.read_text())
        # Where the program is, and a log without a journal. Nothing else is changed.
        (units / "stepscoped.service.d/here.conf").write_text(
            f"[Service]\nExecStart=\nExecStart={BIN}/stepscoped --config /etc/stepscope/stepscoped.toml\n"
            f"StandardError=append:{folder}/daemon.log\n"
        )
        (folder / "etc.upper/stepscope").mkdir(parents=True)
        (folder / "etc.upper/stepscope/stepscoped.toml").write_text("")
        self.log = open(folder / "systemd.log", "wb")
        command = [ROOT / "tests/deploy/systemd_namespace.sh", folder]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        self.pid = wait_until(self._first_process, 20, "systemd")
        wait_until(lambda: self.ctl("is-active", "test.target").stdout == "active\n", 20, f"boot: {self.log_text()}")

    def _first_process(self):
        children = subprocess.run(
            ["pgrep", "-x", "-P", str(self.process.pid), "systemd"], capture_output=True, text=True
        ).stdout.split()
        return int(children[0]) if children else None

    def log_text(self):
        return (self.folder / "systemd.log").read_text(errors="replace")[-3000:]

    def run(self, *command, **kwargs):
        inside = ["nsenter", "-t", str(self.pid), "-m", "-p", *map(str, command)]
        return subprocess.run(inside, capture_output=True, text=True, timeout=60, **kwargs)

    def ctl(self, *arguments):
        return self.run("systemctl", *arguments)

    def show(self, field):
        return self.ctl("show", "--value", f"--property={field}", "stepscoped.service").stdout.strip()

    def daemon_log(self):
        return (self.folder / "daemon.log").read_text()

    def stop(self):
        self.process.kill()  # --kill-child takes systemd, and with it every process of its namespace
        self.process.wait()
        self.log.close()
        groups = f"{self.folder}/cgroup/stepscope-test-{self.process.pid}"
        subprocess.run(["mount", "-t", "cgroup2", "none", self.folder / "cgroup"], check=True)
        remove = ["find", groups, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+"]
        wait_until(lambda: subprocess.run(remove, capture_output=True).returncode == 0, 10, "its processes to be gone")
        subprocess.run(["umount", self.folder / "cgroup"], check=True)


@pytest.fixture(scope="module")
def systemd(tmp_path_factory):
    booted = Systemd(tmp_path_factory.mktemp("sd"))
    yield booted
    booted.stop()


@pytest.fixture
def service(systemd):
    assert systemd.ctl("start", "stepscoped.service").returncode == 0, systemd.log_text() + systemd.daemon_log()
    yield systemd
    systemd.ctl("stop", "stepscoped.service")
    systemd.ctl("reset-failed")


def annotate(systemd, job, count, pause):
    """A process in systemd's namespaces that is no service."""
    command = ["env", f"STEPSCOPE_JOB={job}", f"PYTHONPATH={BUILD / 'python'}", sys.executable, str(ANNOTATOR)]
    inside = ["nsenter", "-t", str(systemd.pid), "-m", "-p", *command, "0", str(count), str(pause), "2"]
    return subprocess.Popen(inside, stdout=subprocess.PIPE, text=True)


class InsideDaemon:
    """What conftest.spans asks, through the command line inside."""

    def __init__(self, systemd):
        self.systemd = systemd

    def call(self, method, **request):
        address = json.loads(self.systemd.run("cat", "/var/lib/stepscope/daemon.json").stdout)["grpc"]
        command = ["grpcurl", "-plaintext", "-emit-defaults", "-d", json.dumps(request), address]
        result = self.systemd.run(*command, f"stepscope.v1.QueryService/{method}")
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)


def stored(systemd, job):
    return collections.Counter((row["name"], row["number"]) for row in spans(InsideDaemon(systemd), job))


def assert_all_stored_once(systemd, job, count):
    wanted = collections.Counter((f"work{thread}", n) for thread in range(2) for n in range(count))
    found = wait_until(lambda: (s := stored(systemd, job)).total() >= 2 * count and s, 20, f"spans of {job}")
    assert found == wanted


def test_it_starts_and_stops_with_all_of_its_hardening(service):
    assert service.show("SubState") == "running"
    assert service.show("Result") == "success"
    pid = service.show("MainPID")
    status = service.run("cat", f"/proc/{pid}/status").stdout
    assert re.search(r"^Seccomp:\s*2$", status, re.M) and re.search(r"^NoNewPrivs:\s*1$", status, re.M)
    assert service.ctl("stop", "stepscoped.service").returncode == 0
    assert service.show("Result") == "success"
    log = service.daemon_log()
    assert "[error]" not in log, log


@pytest.mark.parametrize("end", ["killed", "restarted"])
def test_a_process_that_ends_while_the_daemon_is_away_loses_nothing(service, end):
    process = annotate(service, end, 300, 0.002)
    process.stdout.readline()
    wait_until(lambda: service.show("NFileDescriptorStore") == "2", 10, "its hello to be read: a job's name needs that")
    if end == "killed":
        service.run("kill", "-9", service.show("MainPID"))  # systemd waits RestartSec=2s
    else:
        service.ctl("restart", "stepscoped.service")
    assert process.wait(30) == 0
    wait_until(lambda: service.show("SubState") == "running", 20, "the restart")
    assert_all_stored_once(service, end, 300)
    wait_until(lambda: service.show("NFileDescriptorStore") == "1", 20, "only the agent socket to be kept")


def test_a_reload_is_seen_and_a_hung_daemon_is_replaced(service):
    assert service.ctl("reload", "stepscoped.service").returncode == 0
    pid = service.show("MainPID")
    wait_until(lambda: service.show("SubState") == "running", 10, "the end of the reload")
    assert service.show("MainPID") == pid
    service.run("kill", "-STOP", pid)
    wait_until(lambda: service.show("MainPID") not in (pid, "0"), 60, "the watchdog")
    wait_until(lambda: service.show("SubState") == "running", 20, "the new daemon")
