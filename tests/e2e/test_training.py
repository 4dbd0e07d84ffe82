# SPDX-License-Identifier: Apache-2.0
"""The main job: real PyTorch DDP training, annotated and not, recorded, uploaded to a real S3 server and counted there."""

import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest
from conftest import BIN, ROOT, TORCH_PYTHON, spans, stepscope, wait_until

STEPS = 12
pytestmark = pytest.mark.skipif(not TORCH_PYTHON, reason="no PyTorch: script/bootstrap --torch provides one")


class SwitchReader(threading.Thread):
    """Reads the switch counts of every thread of a process tree, as /proc tells them, every 0.2 s."""

    def __init__(self, root):
        super().__init__(daemon=True)
        self.root = root
        self.readings = {}
        self.done = False

    def run(self):
        while not self.done:
            for pid in descendants(self.root):
                for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
                    count = switches(task)
                    if count is not None:
                        first, _ = self.readings.get(int(task.name), (count, count))
                        self.readings[int(task.name)] = (first, count)
            time.sleep(0.2)


def descendants(root):
    found = [root]
    for pid in found:
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                found += map(int, pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text().split())
        except OSError:
            continue
    return found


def switches(task):
    try:
        text = (task / "status").read_text()
    except OSError:
        return None
    return sum(int(line.split()[1]) for line in text.splitlines() if "ctxt_switches" in line)


@pytest.mark.parametrize("variant", ["annotated", "plain"])
def test_training_is_recorded_whole(make_daemon, s3, variant, capsys):
    daemon = make_daemon(*s3.settings(), env=s3.env).start()
    script = ROOT / "examples" / ("train_ddp.py" if variant == "annotated" else "train_ddp_plain.py")
    run = subprocess.Popen(
        [
            BIN / "stepscope",
            "--data-dir",
            daemon.data_dir,
            "run",
            "--job",
            f"train-{variant}",
            "--wait-upload",
            "60",
            "--",
            TORCH_PYTHON,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            "2",
            script,
            "--steps",
            str(STEPS),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    books = SwitchReader(run.pid)
    books.start()
    out, err = run.communicate(timeout=300)
    books.done = True
    books.join()
    assert run.returncode == 0, out + err

    job = daemon.call("GetJob", job=f"train-{variant}")
    assert [r["rank"] for r in job["ranks"]] == [0, 1]
    lost = [loss for loss in job.get("loss", []) if loss["stage"] != "sampler"]  # late on a busy machine, and says so
    assert lost == [], "default rings lose nothing"

    steps = daemon.call("ListSteps", job=job["job"], all_ranks=True)["steps"]
    per_rank = {rank: sorted(int(s["number"]) for s in steps if s["rank"] == rank) for rank in (0, 1)}
    for rank, numbers in per_rank.items():
        assert len(set(numbers)) == len(numbers)
        assert len(numbers) >= STEPS - 1, f"rank {rank} has steps {numbers}"
    rows = spans(daemon, job["job"])
    domains = {row["domain"] for row in rows}
    assert 2 in domains, "data loader spans"
    if variant == "annotated":
        assert {"forward", "backward", "optimizer"} <= {row["name"] for row in rows}

    summary = daemon.call("GetSummary", job=job["job"])
    ranks_with_slices = {t["rank"] for t in summary["threads"] if int(t["slices"]) > 0}
    assert {0, 1} <= ranks_with_slices
    assert sum(int(t["runnable_ns"]) for t in summary["threads"]) > 0, "two ranks on two CPUs wait for a CPU at times"
    assert any(p["role"] == "loader worker" for p in summary["processes"]), [p["role"] for p in summary["processes"]]

    check_books(daemon, job, books.readings, capsys)
    check_upload(daemon, job, s3)


def check_books(daemon, job, readings, capsys):
    """seq of a slice is the thread's switch count: between two readings of /proc every count must be there, once."""
    tracks = {}
    for track in daemon.call("ListTracks", job=job["job"])["tracks"]:
        if track["kind"] == "thread":
            tracks.setdefault(track["tid"], []).append(track["lane"])
    by_lane = slices_by_lane(daemon, job)
    threads = total = 0
    for tid, (first, last) in readings.items():
        lanes = tracks.get(tid, [])
        seen = [seq for lane in lanes for seq in by_lane.get(lane, [])]
        if last == first or not seen or len(lanes) != 1:
            continue
        inside = [seq for seq in seen if first < seq <= last]
        assert sorted(inside) == list(range(first + 1, last + 1)), (
            f"thread {tid}: /proc counted {last - first} switches, {len(inside)} slices"
        )
        threads += 1
        total += last - first
    with capsys.disabled():
        print(f"\n  books: {threads} threads, {total} switches counted by /proc between two readings = slices, exactly")
    assert threads >= 4 and total > 500


def slices_by_lane(daemon, job):
    """seq values of every sched_slice row by lane, in pages."""
    by_lane = {}
    begin = 0
    while True:
        answer = daemon.call("GetSlices", job=job["job"], table="sched_slice", limit=100000, begin_ns=begin)
        page = answer.get("slices", [])
        last_start = max((int(r["start_ns"]) for r in page), default=0)
        for row in page:
            # A page ends before its last start, which begins the next one; a turn still on at `begin` was on the page before.
            if (answer.get("cut") and int(row["start_ns"]) == last_start) or int(row["start_ns"]) < begin:
                continue
            seq = next(int(f["integer"]) for f in row["fields"] if f["name"] == "seq")
            by_lane.setdefault(row["lane"], []).append(seq)
        if not answer.get("cut"):
            return by_lane
        begin = last_start


def check_upload(daemon, job, s3):
    wait_until(lambda: daemon.call("ControlService/GetUpload", job=job["job"])["state"] == "done", 60, "the upload")
    job = daemon.call("GetJob", job=job["job"])
    stored = {t["table"]: int(t["rows"]) for t in job["tables"]}
    result = subprocess.run(
        [
            sys.executable,
            ROOT / "examples/query_parquet.py",
            "--endpoint",
            s3.endpoint,
            f"s3://{s3.bucket}/t",
            job["name"],
        ],
        capture_output=True,
        text=True,
        env={**os.environ, **s3.env},
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    uploaded = {}
    for line in result.stdout.splitlines():
        if " rows uploaded" in line:
            name, rest = line.split(": ", 1)
            uploaded[name] = int(rest.split()[0])
    assert {k: v for k, v in uploaded.items() if v} == {k: v for k, v in stored.items() if v}
    assert stored["span"] > 0 and stored["sched_slice"] > 0


def test_report_is_valid_against_its_schema(make_daemon):
    import jsonschema

    data = make_daemon().data_dir
    assert (
        stepscope("run", "--job", "quick", "--quiet", "--", "sh", "-c", "sleep 0.3; exit 3", data_dir=data).returncode
        == 3
    )
    result = stepscope("report", "--format", "json", data_dir=data)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    jsonschema.validate(report, json.loads((ROOT / "docs/formats/report.v1.schema.json").read_text()))
    assert report["job"]["name"] == "quick"
    assert report["cpus"]["slices"] > 0
