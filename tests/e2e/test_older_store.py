# SPDX-License-Identifier: Apache-2.0
"""A store that an earlier build wrote opens and answers the same numbers; one of a later format is refused.

tests/golden/store holds stores of earlier builds: what two_jobs() left in `store/` (without LOG and LOCK) and what it returned.
"""

import json
import os
import pathlib
import subprocess
import sys
import tarfile

import pytest
from conftest import BUILD, ROOT, Daemon, stepscope

GOLDEN = ROOT / "tests" / "golden" / "store"

# Two threads, a step loop, a mark, a long name, a block large enough to be a blob.
PROGRAM = """
import threading, time
import stepscope

def work(name):
    for i in range(20):
        with stepscope.annotate(f"{name}_{i}"):
            time.sleep(0.001)

thread = threading.Thread(target=work, args=("load",))
thread.start()
for i in range(30):
    with stepscope.step(i):
        with stepscope.annotate("forward"):
            time.sleep(0.002)
stepscope.mark("half way")
with stepscope.annotate("n" * 5000):
    work("main")
thread.join()
for i in range(5000):
    with stepscope.annotate("burst"):
        pass
"""


def record(daemon, job):
    """Records PROGRAM as `job` of `daemon` and ends the job."""
    env = {**daemon.agent_env(), "STEPSCOPE_JOB": job}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    ended = stepscope("end", job, data_dir=daemon.data_dir)
    assert ended.returncode == 0, ended.stderr


def numbers(daemon, job):
    """What of a report is read from the store alone."""
    done = stepscope("report", job, "--json", data_dir=daemon.data_dir)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    return {"tables": report["job"]["tables"], **{key: report[key] for key in ("spans", "steps", "loss")}}


def two_jobs(daemon):
    """Records one job that ends up in table and blob files, one that is in the log; returns their numbers."""
    daemon.start()
    record(daemon, "in-files")
    daemon.stop()
    daemon.start()
    record(daemon, "in-log")
    found = {job: numbers(daemon, job) for job in ("in-files", "in-log")}
    daemon.stop()
    return found


@pytest.mark.parametrize("archive", sorted(path.name for path in GOLDEN.glob("*.tar.gz")))
def test_a_store_of_an_earlier_build_answers_the_same(make_daemon, archive):
    daemon = make_daemon("sched.mode=off")
    daemon.data_dir.mkdir(parents=True)
    with tarfile.open(GOLDEN / archive) as tar:
        tar.extractall(daemon.data_dir)
    daemon.start()
    expected = json.loads((GOLDEN / archive.replace(".tar.gz", ".json")).read_text())
    assert {job: numbers(daemon, job) for job in expected} == expected
    record(daemon, "fresh")
    assert len(numbers(daemon, "fresh")["steps"]) == 30
    first = next(iter(expected))
    assert stepscope("delete", first, "--yes", data_dir=daemon.data_dir).returncode == 0


def test_a_store_of_a_later_format_is_refused_in_clear_words(make_daemon):
    daemon = make_daemon("sched.mode=off")
    daemon.data_dir.mkdir(parents=True)
    subprocess.run([BUILD / "tests" / "fill_store", daemon.data_dir, "1", "9"], check=True, timeout=60)
    with pytest.raises(AssertionError) as refused:
        daemon.start()
    said = str(refused.value)
    assert "stepscoped ended with 1" in said
    assert "has format 9, written by a newer stepscope; this release reads formats 1 to 1" in said
    assert "use the newer release or give another --data-dir" in said


@pytest.mark.full
def test_the_store_of_the_commit_before_answers_the_same(make_daemon, tmp_path):
    before = build_commit_before(tmp_path)
    daemon = make_daemon("sched.mode=off")
    old = Daemon(daemon.data_dir, "sched.mode=off")
    old.program = before
    expected = two_jobs(old)
    daemon.start()
    assert {job: numbers(daemon, job) for job in expected} == expected


def build_commit_before(tmp_path):
    """stepscoped of the commit before this one, built in a worktree of its own."""
    tree = tmp_path / "before"
    subprocess.run(["git", "worktree", "add", "--detach", tree, "HEAD~1"], cwd=ROOT, check=True)
    try:
        environment = {**os.environ, "CCACHE_BASEDIR": str(tree)}
        configure = ["cmake", "-S", tree, "-B", tmp_path / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo"]
        subprocess.run([*configure, "-DSTEPSCOPE_TESTS=OFF"], cwd=tree, env=environment, check=True)
        subprocess.run(["cmake", "--build", tmp_path / "build", "--target", "stepscoped"], env=environment, check=True)
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)
    return pathlib.Path(tmp_path / "build" / "bin" / "stepscoped")
