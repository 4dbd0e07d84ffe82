# SPDX-License-Identifier: Apache-2.0
"""Parquet on S3, end to end: upload_tool stores rows that this file made up and uploads them to versitygw, a real S3 server that
checks signatures; pyarrow and DuckDB read them back."""

import hashlib
import os
import random
import socket
import time
import urllib.parse

import duckdb
import pyarrow.parquet as pq
import pytest
from refusing_proxy import RefusingProxy
from s3_server import SECRET_KEY, S3Server
from upload_rows import (
    JOB_ID,
    METRIC,
    PROCESS,
    SECOND,
    START_WALL,
    THREAD_A,
    TOOL,
    Rows,
    bulky_rows,
    check_exactly_once,
    closing_manifest,
    load,
    start_upload,
    table,
    upload,
)

pytestmark = pytest.mark.skipif(not TOOL.exists(), reason="build target upload_tool first")


@pytest.fixture
def gateway(tmp_path):
    server = S3Server(tmp_path).start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def bulky(tmp_path_factory):
    return bulky_rows(tmp_path_factory.mktemp("bulky"))


@pytest.fixture
def mixed(tmp_path):
    chance = random.Random(5)
    rows = Rows(tmp_path / "rows.txt")
    for seq, slot in enumerate([1, 2, 3, 4, 0xFFFFFFFF]):
        rows.add_spans(min(slot, 9), seq, 400, chance)
    rows.block("counter", 5, 5, [(METRIC, 5 * SECOND + i, 3, 4602678819172646912 + i, 0) for i in range(10)])
    rows.block("clock_sample", 1, 6, [(PROCESS, 20 * SECOND, 0, 1, START_WALL + 50 * SECOND, 7)])
    rows.block(
        "loss",
        30,
        7,
        [(PROCESS, 30 * SECOND, 5, 1, THREAD_A, 1, 3, 42, 420), (PROCESS, 30 * SECOND + 1, 5, 2, 0, 8, 4, -1, -1)],
    )
    return rows.save()


def test_rows_come_back_as_they_were_stored(gateway, mixed, tmp_path):
    load(mixed, tmp_path / "store")
    status, output = upload(gateway, mixed, tmp_path / "store", "--part-bytes", 4000)
    assert status == 0, output

    spans = table(gateway, "span")
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("span", spans)
    columns = "number, node_time_ns, wall_time_ns, dur_ns, name, rank, pid, tid, thread"
    got = connection.execute(f"SELECT {columns} FROM span ORDER BY 1").fetchall()
    assert got == sorted(mixed.spans)
    (first,) = connection.execute("SELECT min(epoch_us(time)) FROM span").fetchone()
    assert first == min(s[2] for s in mixed.spans) // 1000
    assert connection.execute("SELECT DISTINCT node, run, process, attempt, job FROM span").fetchall() == [
        ("node-1", 7, "python train.py", 2, f"1000.slurm.{JOB_ID}")
    ]

    counters = table(gateway, "counter").to_table().to_pydict()
    assert len(counters["value"]) == 10 and all(0.5 <= v < 0.501 for v in counters["value"])
    assert set(counters["metric"]) == {"loss"} and set(counters["lane_name"]) == {"loss"}

    losses = table(gateway, "loss").to_table().sort_by("node_time_ns").to_pydict()
    assert losses["count"] == [42, -1] and losses["source"] == ["main", ""] and losses["reason"] == [1, 8]
    # The clock sample at 20 s saw the wall clock 30 s ahead: later rows follow it, earlier ones do not.
    assert losses["wall_time_ns"][0] == START_WALL + 60 * SECOND

    manifest = closing_manifest(gateway)
    assert manifest["state"] == "complete"
    assert manifest["rows"] == {"span": 2000, "counter": 10, "clock_sample": 1, "loss": 2} == manifest["stored_rows"]
    assert len(manifest["files"]) == len(gateway.objects(".parquet")) > 4
    for file in manifest["files"]:
        content = (gateway.data / "bucket/team/prefix" / file["path"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == file["sha256"] and len(content) == file["bytes"]
    assert (
        len([p for p in gateway.objects(".json") if p.parent.name == "parts"])
        == max(f["part"] for f in manifest["files"]) + 1
    )
    assert gateway.open_uploads() == []


def test_files_are_laid_out_for_other_engines(gateway, mixed, tmp_path):
    load(mixed, tmp_path / "store")
    assert upload(gateway, mixed, tmp_path / "store")[0] == 0
    (path,) = [p for p in gateway.objects(".parquet") if "/v1/span/" in str(p)]
    assert urllib.parse.unquote(path.parts[-3]) == f"job=1000.slurm.{JOB_ID}" and path.parts[-2] == "attempt=2"
    with path.open("rb") as file:
        meta = pq.ParquetFile(file)
        schema = meta.schema_arrow
        assert str(schema.field("time").type) == "timestamp[us, tz=UTC]"
        assert str(schema.field("name").type).startswith("dictionary<values=string")
        group = meta.metadata.row_group(0)
        columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
        assert {c.compression for c in columns.values()} == {"ZSTD"}
        assert "DELTA_BINARY_PACKED" in columns["node_time_ns"].encodings
        lanes = meta.read().select(["lane", "node_time_ns"]).to_pydict()
    order = list(zip(lanes["lane"], lanes["node_time_ns"]))
    assert order == sorted(order)


@pytest.mark.parametrize(
    "case, words",
    [
        ("secret", ["access denied", "access key or secret is wrong"]),
        ("bucket", ["the bucket does not exist", "create it"]),
        ("down", ["no answer", "endpoint runs"]),
    ],
)
def test_a_failure_says_what_to_do_and_the_next_try_works(gateway, mixed, tmp_path, case, words):
    load(mixed, tmp_path / "store")
    if case == "down":
        gateway.kill()
    began = time.monotonic()
    status, output = upload(
        gateway,
        mixed,
        tmp_path / "store",
        secret="wrong" if case == "secret" else SECRET_KEY,
        url="s3://nowhere/x" if case == "bucket" else "s3://bucket/team/prefix",
    )
    assert status == 1 and all(word in output for word in words), output
    assert time.monotonic() - began < 60
    if case == "down":
        gateway.start()
    status, output = upload(gateway, mixed, tmp_path / "store")
    assert status == 0, output
    assert table(gateway, "span").count_rows() == 2000


def test_an_object_that_fails_half_way_leaves_nothing(gateway, bulky, tmp_path):
    load(bulky, tmp_path / "store")
    proxy = RefusingProxy(gateway)
    process = start_upload(f"http://127.0.0.1:{proxy.port}", bulky, tmp_path / "store")
    output, _ = process.communicate(timeout=120)
    proxy.listener.close()
    assert process.returncode == 1 and "access denied" in output, output
    assert [p for p in gateway.objects(".parquet") if "sched_slice" in str(p)] == []
    assert gateway.open_uploads() == []
    assert upload(gateway, bulky, tmp_path / "store")[0] == 0
    check_exactly_once(gateway, bulky)


def test_a_server_that_hangs_does_not_hold_up_the_end(mixed, tmp_path):
    load(mixed, tmp_path / "store")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(16)
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        process = start_upload(endpoint, mixed, tmp_path / "store", "--wait", 2)
        began = time.monotonic()
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 1, output
    assert time.monotonic() - began < 30


def bindings(output_folder):
    """(user, provider, symbol) of every binding LD_DEBUG wrote."""
    for log in output_folder.iterdir():
        for line in log.read_text(errors="replace").splitlines():
            if "binding file" not in line:
                continue
            words = line.split()
            at = words.index("file")
            provider = words[words.index("to") + 1]
            yield os.path.basename(words[at + 1]), os.path.basename(provider), line.split("`")[-1].split("'")[0]


def test_arrow_and_the_daemon_do_not_lend_each_other_symbols(gateway, mixed, tmp_path):
    """libparquet exports a whole libcrypto, and the program has OpenSSL and gRPC of its own."""
    load(mixed, tmp_path / "store")
    logs = tmp_path / "ld"
    logs.mkdir()
    environment = {"LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": str(logs / "log")}
    old = {key: os.environ.get(key) for key in environment}
    os.environ.update(environment)
    try:
        status, output = upload(gateway, mixed, tmp_path / "store")
    finally:
        for key, value in old.items():
            os.environ.pop(key) if value is None else os.environ.__setitem__(key, value)
    assert status == 0, output
    module = ("libarrow", "libparquet", "stepscope_dataset")
    neutral = ("libc.", "libm.", "libstdc++", "libgcc_s", "ld-linux", "libpthread", "libdl", "librt", "linux-vdso")
    foreign, seen_module = set(), False
    for user, provider, symbol in bindings(logs):
        user_in, provider_in = user.startswith(module), provider.startswith(module)
        seen_module |= user_in
        if user_in != provider_in and not provider.startswith(neutral) and not (user_in and user == provider):
            foreign.add((user, provider, symbol))
    assert seen_module
    # Weak C++ symbols of the standard library that both sides instantiate are the loader's to unify.
    standard = ("_ZNSt", "_ZNKSt", "_ZSt", "_ZTISt", "_ZTSSt", "_ZTVSt", "_ZGVNSt", "_ZZNSt")
    foreign = {f for f in foreign if not f[2].startswith(standard)}
    assert foreign - {f for f in foreign if f[2] == "stepscope_dataset_v1"} == set()
