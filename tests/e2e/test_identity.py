# SPDX-License-Identifier: Apache-2.0
"""Who a row belongs to: two jobs at once on one daemon, processes in pid namespaces of their own, and a job that goes on after a
reboot. Rows land in their own job and in their thread's lane, or these fail."""

import collections
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
from conftest import BIN, RpcError, spans, stepscope, wait_until

ANNOTATOR = pathlib.Path(__file__).parent / "annotator.py"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and scheduling records need root")


def start_job(daemon, name, *command):
    return subprocess.Popen(
        [BIN / "stepscope", "--data-dir", daemon.data_dir, "run", "--job", name, "--", *map(str, command)],
        env=daemon.agent_env(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def tracks(daemon, job):
    answer = daemon.call("ListTracks", job=job)
    assert not answer.get("cut")
    return {track["lane"]: track for track in answer["tracks"]}


def rows_by_lane(daemon, job, table):
    return {
        lane: sum(int(count["rows"]) for count in track["tables"] if count["table"] == table)
        for lane, track in tracks(daemon, job).items()
    }


@needs_root
def test_two_jobs_at_once_never_share_a_row(daemon):
    count, threads = 150, 3
    first = {"left": 0, "right": 100000}
    runs = {
        name: start_job(daemon, name, sys.executable, ANNOTATOR, first[name], count, 0.004, threads) for name in first
    }
    for run in runs.values():
        out, err = run.communicate(timeout=120)
        assert run.returncode == 0, err
        assert len(out.splitlines()) == count
    pids = {}
    for name in first:
        rows = spans(daemon, name)
        numbers = collections.Counter(row["number"] for row in rows if row["name"].startswith("work"))
        assert numbers == dict.fromkeys(range(first[name], first[name] + count), threads)
        found = tracks(daemon, name)
        pids[name] = {track["pid"] for track in found.values() if track["kind"] == "thread"}
        turns = rows_by_lane(daemon, name, "sched_slice")
        work_lanes = {row["lane"] for row in rows if row["name"].startswith("work")}
        assert len(work_lanes) == threads
        for lane in work_lanes:
            assert turns[lane] >= count * 0.9, "each thread slept after nearly every span: its turns are in its own job"
        assert daemon.call("GetJob", job=name)["runs"] == [daemon.call("GetJob", job=name)["run"]]
    assert pids["left"] and pids["right"] and not pids["left"] & pids["right"]


# Threads of every kind: the main one, one that lives long, many that are gone before anybody can look them up, and two that have
# the same innermost id, one after the other.
NESTED = """
import os, pathlib, threading, time
import stepscope as ss

assert os.getpid() < 100, "this runs in a pid namespace of its own"

def work(name, count):
    for n in range(count):
        with ss.annotate(f"{name}_{n}"):
            time.sleep(0.001)

long_lived = threading.Thread(target=work, args=("long", 200))
long_lived.start()
for n in range(150):
    short = threading.Thread(target=work, args=("short", 2))
    short.start()
    short.join()
ids = []
for n in range(2):
    pathlib.Path("/proc/sys/kernel/ns_last_pid").write_text("5000")
    again = threading.Thread(target=lambda: (ids.append(threading.get_native_id()), work("again", 5)))
    again.start()
    again.join()
    time.sleep(1)
assert ids == [5001, 5001]
child = os.fork()
if child == 0:
    work("child", 50)
    os._exit(0)
os.waitpid(child, 0)
work("main", 100)
long_lived.join()
print(threading.get_native_id())
"""
NESTED_ROWS = {"long": 200, "short": 300, "again": 10, "child": 50, "main": 100}


@needs_root
def test_spans_of_a_nested_pid_namespace_join_their_threads(daemon, short_dir):
    script = short_dir / "nested.py"
    script.write_text(textwrap.dedent(NESTED))
    unshare = ["unshare", "--pid", "--fork", "--mount-proc"]
    # Two levels down: the innermost ids are neither the host's nor those of the level between.
    run = start_job(daemon, "nested", *unshare, *unshare, sys.executable, script)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    assert int(out) < 100
    rows = [row for row in spans(daemon, "nested") if row["name"].split("_")[0] in NESTED_ROWS]
    assert collections.Counter(row["name"] for row in rows) == NESTED_ROWS
    turns = rows_by_lane(daemon, "nested", "sched_slice")
    joined = [row for row in rows if turns.get(row["lane"], 0) > 0]
    assert len(joined) >= 0.999 * len(rows), f"{len(rows) - len(joined)} of {len(rows)} spans joined no thread"
    lanes = collections.defaultdict(set)
    for row in rows:
        lanes[row["name"]].add(row["lane"])
    assert {name: len(found) for name, found in lanes.items()} == {
        "long": 1,
        "short": 150,
        "again": 2,
        "child": 1,
        "main": 1,
    }
    found = tracks(daemon, "nested")
    for row in rows:
        track = found[row["lane"]]
        assert track["kind"] == "thread" and track["tid"] > 0
        assert 0 < track["inner_id"] < 6000 and track["inner_id"] != track["tid"]
    assert found[next(iter(lanes["main"]))]["pid"] == found[next(iter(lanes["long"]))]["pid"]
    assert found[next(iter(lanes["child"]))]["pid"] != found[next(iter(lanes["main"]))]["pid"]


@needs_root
def test_spans_lie_within_the_turns_of_their_nested_thread(daemon, short_dir):
    """Not only the lane: what the thread did in a span is what the kernel says it did then."""
    script = short_dir / "sleeper.py"
    script.write_text(
        textwrap.dedent("""
        import time
        import stepscope as ss
        for n in range(50):
            with ss.annotate(f"sleep_{n}"):
                time.sleep(0.003)
        """)
    )
    run = start_job(daemon, "sleeper", "unshare", "--pid", "--fork", "--mount-proc", sys.executable, script)
    _, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    sleeps = [row for row in spans(daemon, "sleeper") if row["name"] == "sleep"]
    (lane,) = {row["lane"] for row in sleeps}
    ends = [row["start_ns"] + row["dur_ns"] for row in spans(daemon, "sleeper", "sched_slice") if row["lane"] == lane]
    for row in sleeps:
        assert any(row["start_ns"] <= end <= row["start_ns"] + row["dur_ns"] for end in ends), (
            "it left the CPU to sleep"
        )


def start_after_boot(daemon, boot_id, short_dir):
    """Starts the daemon as after another boot: in its mount namespace the kernel's boot id is another one."""
    file = short_dir / "boot_id"
    file.write_text(boot_id + "\n")
    script = f'mount --bind {file} /proc/sys/kernel/random/boot_id && exec "$@"'
    return daemon.start(["unshare", "--mount", "sh", "-c", script, "sh"])


@needs_root
def test_a_job_resumed_after_a_reboot_is_one_job_of_two_runs(make_daemon, short_dir):
    daemon = make_daemon()
    boots = ["11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"]
    for round_number, boot in enumerate(boots):
        start_after_boot(daemon, boot, short_dir)
        assert daemon.call("GetNode")["boot_id"] == boot
        run = start_job(daemon, "long", sys.executable, ANNOTATOR, 1000 * round_number, 20, 0)
        _, err = run.communicate(timeout=120)
        assert run.returncode == 0, err
        if round_number == 0:
            daemon.kill()  # as a power cut
    jobs = daemon.call("ListJobs")["jobs"]
    assert [job["name"] for job in jobs] == ["long"], "both runs are of one job"
    old, new = jobs[0]["history"]
    assert [old["boot_id"], new["boot_id"]] == boots
    assert jobs[0]["run"] == new["run"] and jobs[0]["runs"] == [old["run"], new["run"]]
    assert {row["number"] for row in spans(daemon, "long")} == set(range(1000, 1020)), "a job speaks of its newest run"
    assert {row["number"] for row in spans(daemon, f"long@{old['run']}")} == set(range(20))
    picked = daemon.call("GetJob", job=f"long@{old['run']}")
    assert picked["run"] == old["run"] and picked["runs"] == [old["run"]]
    with pytest.raises(RpcError, match="no job"):
        daemon.call("GetJob", job=f"long@{new['run'] + 1}")
    listed = stepscope("jobs", data_dir=daemon.data_dir).stdout.splitlines()
    assert listed[0].split()[:2] == ["JOB", "RUNS"] and listed[1].split()[:2] == ["long", "2"]


def test_a_torchrun_without_an_id_is_one_job_and_its_secrets_stay(daemon, short_dir):
    """Ranks that no `stepscope run` started: launched like torchrun's, whose default id is none."""
    launcher = short_dir / "launcher.py"
    launcher.write_text(
        textwrap.dedent(f"""
        import os, subprocess, sys
        ranks = []
        for rank in range(2):
            env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2",
                       TORCHELASTIC_RUN_ID="none", MY_PASSWORD="hunter2")
            ranks.append(subprocess.Popen([sys.executable, {str(ANNOTATOR)!r}, str(100 * rank), "200", "0.005"], env=env,
                                          stdout=subprocess.DEVNULL))
        for rank in ranks:
            assert rank.wait() == 0
        """)
    )
    subprocess.run([sys.executable, launcher], env=daemon.agent_env(), check=True, timeout=120)
    job = wait_until(lambda: daemon.call("ListJobs").get("jobs"), 10, "the job")
    assert len(job) == 1, "both ranks are in the job of their launcher"
    assert [rank["rank"] for rank in job[0]["ranks"]] == [0, 1]
    assert job[0]["kind"] == "api" and job[0]["tenant"] == "host"
    daemon.stop()
    for file in daemon.data_dir.rglob("*"):
        if file.is_file():
            assert b"hunter2" not in file.read_bytes()
