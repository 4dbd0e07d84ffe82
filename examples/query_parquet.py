# SPDX-License-Identifier: Apache-2.0
"""Two SQL queries over a job's uploaded tables, with DuckDB reading through pyarrow's S3 file system.

    python examples/query_parquet.py --endpoint http://127.0.0.1:9444 s3://bucket/prefix JOB

Credentials come from the usual AWS variables. The first line compares the rows with the closing manifest.
"""

import argparse
import json
import sys

import duckdb
import pyarrow.dataset as ds
from pyarrow import fs

STEPS_PER_RANK = """
SELECT rank, count(*) AS steps, round(median(dur_ns) / 1e6, 1) AS median_ms, round(max(dur_ns) / 1e6, 1) AS slowest_ms
FROM span WHERE domain = 1 GROUP BY rank ORDER BY rank
"""
CPU_PER_RANK = """
SELECT rank, count(DISTINCT tid) AS threads, count(*) AS turns, round(sum(dur_ns) / 1e9, 2) AS on_cpu_s,
       round(sum(wait_ns) / 1e9, 3) AS waited_for_a_cpu_s, round(max(wait_ns) / 1e6, 2) AS longest_wait_ms
FROM sched_slice GROUP BY rank ORDER BY rank
"""


def open_store(url, endpoint):
    if not url.startswith("s3://"):
        return fs.LocalFileSystem(), url.removeprefix("file://")
    scheme, _, host = (endpoint or "").rpartition("://")
    store = fs.S3FileSystem(endpoint_override=host or None, scheme=scheme or "https")
    return store, url.removeprefix("s3://")


def manifests(store, prefix, job):
    """Closing manifests of a job, one per node and run, found by the job's name or id."""
    found = store.get_file_info(fs.FileSelector(f"{prefix}/v1/_jobs", recursive=True, allow_not_found=True))
    for info in found:
        if info.extension == "json" and "/parts/" not in info.path:
            with store.open_input_stream(info.path) as stream:
                manifest = json.loads(stream.read())
            if job in info.path or job == manifest["job_name"]:
                yield manifest


def table(store, prefix, manifest, name):
    """All parts of one table as a data set; None where the job has no such rows."""
    paths = [file["path"] for file in manifest["files"] if file["table"] == name]
    return (
        ds.dataset([p if p.startswith(prefix) else f"{prefix}/{p}" for p in paths], filesystem=store) if paths else None
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("job")
    parser.add_argument("--endpoint", help="S3 endpoint other than AWS")
    options = parser.parse_args()
    store, prefix = open_store(options.url.rstrip("/"), options.endpoint)
    manifest = next(iter(manifests(store, prefix, options.job)), None)
    if manifest is None:
        sys.exit(f"no closing manifest of job {options.job} under {options.url}/v1/_jobs; is its upload done?")

    connection = duckdb.connect()
    for name, rows in manifest["rows"].items():
        data = table(store, prefix, manifest, name)
        uploaded = data.count_rows() if data else 0
        print(f"{name}: {uploaded} rows uploaded, the manifest says {rows}")
        if uploaded != rows:
            sys.exit(f"{name}: the uploaded parts do not hold what the manifest says")
        if data:
            connection.register(name, data)
    for title, query in (
        ("steps per rank", STEPS_PER_RANK),
        ("CPU time per rank, loader workers included", CPU_PER_RANK),
    ):
        print(f"\n{title}")
        print(connection.sql(query))


if __name__ == "__main__":
    main()
