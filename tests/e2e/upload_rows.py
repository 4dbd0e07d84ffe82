# SPDX-License-Identifier: Apache-2.0
"""Rows that a test makes up, upload_tool which stores and uploads them, and the S3 server that gets them: what the tests of the
upload share."""

import json
import os
import random
import subprocess
import time

import pyarrow.dataset as ds
from conftest import BUILD
from s3_server import ACCESS_KEY, SECRET_KEY

TOOL = BUILD / "tests" / "upload_tool"
SECOND = 1_000_000_000
START_WALL = 1_700_000_000 * SECOND
JOB_ID = "night/../run=7 é"
PART_BYTES = 11_000_000
THREAD_A, THREAD_B, METRIC, PROCESS, CPU = 11, 12, 13, 14, 15


class Rows:
    """Makes up rows, writes them for upload_tool, and remembers what must come out."""

    def __init__(self, path):
        self.path = path
        self.lines = [
            f"J\t1000\tslurm\t{JOB_ID}\t2\tnode-1\tboot-1\t0\t{START_WALL}",
            f"E\t{PROCESS}\t2\t500\t77\t0\t3\tpython train.py\t",
            f"E\t{THREAD_A}\t3\t500\t77\t501\t-1\tmain\t",
            f"E\t{THREAD_B}\t3\t500\t77\t502\t-1\tpt_data_pin\t",
            f"E\t{METRIC}\t6\t500\t77\t0\t-1\t\tloss",
            f"E\t{CPU}\t4\t3\t0\t0\t-1\t\t",
            "N\t1\tforward",
            "N\t2\tbackward ü",
            "N\t3\tloss",
        ]
        self.spans = []
        self.counters = []
        self.slices = 0
        self.losses = 0

    def block(self, table, slot, seq, rows, shard=0):
        self.lines.append(f"B\t{table}\t{slot}\t{shard}\t{seq}")
        self.lines += ["R\t" + "\t".join(map(str, row)) for row in rows]

    def add_spans(self, slot, seq, count, chance):
        rows = []
        for i in range(count):
            lane = chance.choice([THREAD_A, THREAD_B])
            name = chance.choice([1, 2])
            start, dur = slot * SECOND + i * 1000 + chance.randrange(900), chance.randrange(1, 10**6)
            rows.append((lane, start, dur, name, 1, seq * 100_000 + i, 1, chance.randrange(4), 0, 0))
            thread = {THREAD_A: ("main", 501), THREAD_B: ("pt_data_pin", 502)}[lane]
            text = {1: "forward", 2: "backward ü"}[name]
            self.spans.append((seq * 100_000 + i, start, START_WALL + start, dur, text, 3, 500, thread[1], thread[0]))
        self.block("span", slot, seq, rows)

    def add_noise(self, slot, seq, bulky=0):
        """Slices with values that do not compress, to make objects bigger than one S3 part."""
        chance = random.Random(seq)
        rows = [
            (THREAD_A, slot * SECOND + i, chance.getrandbits(40)) + tuple(chance.getrandbits(62) for _ in range(13))
            for i in range(bulky)
        ]
        self.slices += bulky
        self.block("sched_slice", slot, seq, rows)

    def save(self):
        self.path.write_text("\n".join(self.lines) + "\n")
        return self


def tool(command, rows, store, *arguments, secret=SECRET_KEY, **keywords):
    environment = dict(
        os.environ,
        AWS_ACCESS_KEY_ID=ACCESS_KEY,
        AWS_SECRET_ACCESS_KEY=secret,
        AWS_EC2_METADATA_DISABLED="true",
        AWS_REGION="us-east-1",
    )
    return subprocess.Popen(
        [str(TOOL), command, "--rows", str(rows.path), "--store", str(store), *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **keywords,
    )


def load(rows, store):
    process = tool("load", rows, store)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output


def start_upload(endpoint, rows, store, *arguments, url="s3://bucket/team/prefix", **keywords):
    return tool("upload", rows, store, "--url", url, "--endpoint", endpoint, *arguments, **keywords)


def upload(gateway, rows, store, *arguments, **keywords):
    process = start_upload(gateway.endpoint, rows, store, *arguments, **keywords)
    output, _ = process.communicate(timeout=300)
    return process.returncode, output


def table(gateway, name):
    return ds.dataset(f"bucket/team/prefix/v1/{name}", filesystem=gateway.file_system(), partitioning="hive")


def closing_manifest(gateway):
    paths = [p for p in gateway.objects(".json") if p.parent.name != "parts"]
    assert len(paths) == 1, paths
    return json.loads(paths[0].read_text())


def bulky_rows(folder):
    """Two parts above 10 MB, which Arrow sends as multipart uploads."""
    chance = random.Random(6)
    rows = Rows(folder / "rows.txt")
    for seq in range(6):
        rows.add_noise(seq + 1, seq, bulky=40_000)
    rows.add_spans(3, 100, 300, chance)
    return rows.save()


def check_exactly_once(gateway, rows):
    assert table(gateway, "sched_slice").count_rows() == rows.slices
    spans = table(gateway, "span").to_table(columns=["number"]).to_pydict()["number"]
    assert sorted(spans) == sorted(s[0] for s in rows.spans)
    assert gateway.open_uploads() == []
    manifest = closing_manifest(gateway)
    assert manifest["state"] == "complete"
    assert manifest["rows"] == {"sched_slice": rows.slices, "span": len(rows.spans)}
    assert sorted(f["path"] for f in manifest["files"]) == sorted(
        str(p.relative_to(gateway.data / "bucket/team/prefix")) for p in gateway.objects(".parquet")
    )


def wait_until(condition, process):
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, "the upload ended before the moment the test wants"
        assert time.monotonic() < deadline
        time.sleep(0.001)
