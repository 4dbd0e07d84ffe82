# SPDX-License-Identifier: Apache-2.0
"""Tools people already have: grpcurl, curl, a browser's health probes."""

import os
import subprocess
import time
import urllib.request

from conftest import grpcurl, stepscope


def http(daemon, path, host=None):
    request = urllib.request.Request(f"http://{daemon.facts()['http']}{path}", headers={"Host": host} if host else {})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_grpcurl_lists_describes_and_asks_for_health(daemon):
    address = daemon.facts()["grpc"]
    listed = subprocess.run(
        ["grpcurl", "-plaintext", address, "list"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"stepscope.v1.QueryService", "stepscope.v1.ControlService", "grpc.health.v1.Health"} <= set(listed)
    assert "stepscope.v1.AgentService" not in listed, "agents have their own socket"
    health = subprocess.run(
        ["grpcurl", "-plaintext", address, "grpc.health.v1.Health/Check"], capture_output=True, text=True, check=True
    )
    assert "SERVING" in health.stdout
    described = subprocess.run(
        ["grpcurl", "-plaintext", address, "describe", "stepscope.v1.Job"], capture_output=True, text=True, check=True
    )
    assert "message Job" in described.stdout


def test_watch_utilization_answers_at_once(daemon):
    begun = time.monotonic()
    answers = grpcurl(daemon.facts()["grpc"], "WatchUtilization", {"max_updates": 1})
    assert len(answers) == 1 and time.monotonic() - begun < 5


def test_health_and_metrics_over_http(daemon):
    assert http(daemon, "/healthz")[0] == 200
    assert http(daemon, "/readyz")[0] == 200
    status, text = http(daemon, "/metrics")
    assert status == 200 and "# TYPE stepscope" in text
    assert http(daemon, "/metrics", host="evil.example")[0] in (400, 403, 421)
    assert http(daemon, "/../../etc/passwd")[0] in (400, 403, 404)


def test_an_idle_daemon_is_quiet_and_small(daemon, capsys):
    node = daemon.call("GetNode")
    sched = next(c for c in node["collectors"] if c["name"] == "sched")
    assert sched["state"] in ("idle", "off", "unavailable"), sched
    before = os.times(), cpu_ticks(daemon.process.pid), switches(daemon.process.pid)
    time.sleep(5)
    ticks = cpu_ticks(daemon.process.pid) - before[1]
    woken = switches(daemon.process.pid) - before[2]
    rss = rss_kib(daemon.process.pid)
    with capsys.disabled():
        print(f"\n  idle daemon: RSS {rss / 1024:.1f} MiB, {ticks * 10} ms CPU and {woken} wake-ups in 5 s")
    assert ticks <= 10, "an idle daemon uses at most 2 % of a CPU"
    assert rss < 60 * 1000, "floor of the design: 60 MB"


def cpu_ticks(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def switches(pid):
    total = 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        for line in open(f"/proc/{pid}/task/{tid}/status"):
            if "ctxt_switches" in line:
                total += int(line.split()[1])
    return total


def rss_kib(pid):
    return next(int(line.split()[1]) for line in open(f"/proc/{pid}/status") if line.startswith("VmRSS"))


def test_bare_command_says_what_to_do_next(daemon):
    result = stepscope(data_dir=daemon.data_dir)
    assert result.returncode == 0 and "next:" in result.stdout
    assert stepscope("report", "nosuch", data_dir=daemon.data_dir).returncode == 1
    assert stepscope("frobnicate").returncode == 2
