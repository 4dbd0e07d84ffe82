# SPDX-License-Identifier: Apache-2.0
"""What the store occupies by du: a deleted job's space is back within ten seconds, and the limit holds while a job records."""

import subprocess
import sys
import time

from conftest import BUILD, FULL, stepscope
from test_exactly_once import start_annotator

MEGABYTES = 400 if FULL else 60
PRODUCER = """
import sys, stepscope, random
end = int(sys.argv[1])
for n in range(end):
    with stepscope.annotate(f"work_{random.getrandbits(60)}"):
        pass
"""


def disk_mb(data_dir):
    """Megabytes the store's files occupy."""
    done = subprocess.run(
        ["du", "-s", "--block-size=1000", data_dir / "store"], capture_output=True, text=True, check=False
    )
    return int(done.stdout.split()[0]) / 1000  # a file that goes while du looks is no error


def fill(data_dir, megabytes):
    data_dir.mkdir(parents=True, exist_ok=True)
    subprocess.run([BUILD / "tests" / "fill_store", data_dir, str(megabytes)], check=True, timeout=300)


def calls(daemon, job):
    tables = {table["table"]: int(table["rows"]) for table in daemon.call("GetJob", job=job)["tables"]}
    return tables["api_call"]


def delete_and_look(daemon, job):
    """Deletes a job and returns the megabytes left ten seconds after the command began."""
    begun = time.monotonic()
    done = stepscope("delete", job, "--yes", data_dir=daemon.data_dir, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "freed" in done.stdout
    time.sleep(max(0.0, begun + 10 - time.monotonic()))
    return disk_mb(daemon.data_dir)


def test_a_deleted_job_gives_its_disk_back_within_ten_seconds(make_daemon):
    daemon = make_daemon("sched.mode=off")
    fill(daemon.data_dir, MEGABYTES)
    daemon.start()
    small = calls(daemon, "small")
    before = disk_mb(daemon.data_dir)
    after = delete_and_look(daemon, "big")
    assert before > 0.9 * MEGABYTES
    assert after < before * 0.3, f"a sixth is the other job's; {before} MB before, {after} MB after"
    assert calls(daemon, "small") == small
    assert delete_and_look(daemon, "small") < 10, "logs and empty files"


def test_a_deleted_job_gives_its_disk_back_while_another_one_is_recorded(make_daemon):
    daemon = make_daemon("sched.mode=off")
    fill(daemon.data_dir, MEGABYTES)
    daemon.start()
    recorded = start_annotator(daemon, 0, 10_000_000, threads=2)
    recorded.stdout.readline()
    before = disk_mb(daemon.data_dir)
    draining = subprocess.Popen(["cat"], stdin=recorded.stdout, stdout=subprocess.DEVNULL)
    after = delete_and_look(daemon, "big")
    still_recording = recorded.poll() is None
    recorded.kill()
    recorded.wait()
    draining.kill()
    draining.wait()
    assert still_recording
    assert after < before * 0.5, f"{before} MB before, {after} MB after, with what was recorded meanwhile"


def test_the_limit_holds_while_a_job_records_and_views_say_not_kept(make_daemon):
    daemon = make_daemon("sched.mode=off", f"retain.max_bytes={64 << 20}", "retain.raw_minutes=0")
    fill(daemon.data_dir, 90)
    daemon.start()
    spans = 300_000
    producer = subprocess.Popen([sys.executable, "-c", PRODUCER, str(spans)], env=daemon.agent_env())
    most = 0.0
    deadline = time.monotonic() + 120
    while producer.poll() is None or disk_mb(daemon.data_dir) > 67.2:
        most = max(most, disk_mb(daemon.data_dir))
        assert time.monotonic() < deadline, f"{most} MB on disk: {daemon.log_text()}"
        time.sleep(0.5)
    assert producer.returncode == 0
    report = stepscope("report", "big", data_dir=daemon.data_dir)
    assert "not kept" in report.stdout, report.stdout + report.stderr
    job = daemon.call("GetJob", job="big")
    [lost] = [loss for loss in job["loss"] if loss["reason"] == "not kept"]
    assert lost["stage"] == "retention" and lost["table"] == "api_call"
    answer = daemon.call("GetSlices", job="big", table="api_call", limit=1)
    assert int(answer["total"]) + int(lost["count"]) == calls(daemon, "big"), "what is not readable is counted"
    assert any(hole["reason"] == "not kept" for hole in answer["holes"])
