# SPDX-License-Identifier: Apache-2.0
"""What libstepscope_agent.so asks of the process it is loaded into: read from the built file, compared with checked-in lists."""

import os
import pathlib
import re
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
BUILD = pathlib.Path(os.environ.get("STEPSCOPE_BUILD_DIR", ROOT / "build"))
MAX_STRIPPED_BYTES = 400 << 10


@pytest.fixture(scope="module")
def library():
    path = BUILD / "lib" / "libstepscope_agent.so"
    assert path.exists(), f"{path} is missing: build the target stepscope_agent first, or set STEPSCOPE_BUILD_DIR"
    return path


def output(*command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def test_needs_exactly_the_listed_symbols(library):
    needed = sorted(line.split()[-1] for line in output("nm", "-D", "-u", library).splitlines())
    assert needed == (HERE / "agent_needs.txt").read_text().split()


def test_exports_the_public_api_and_nothing_else(library):
    header = (ROOT / "agent/include/stepscope/stepscope.h").read_text()
    public = re.findall(r"^STEPSCOPE_API .*?(stepscope_\w+)\(", header, re.MULTILINE)
    exported = [line.split()[-1] for line in output("nm", "-D", "--defined-only", library).splitlines()]
    assert sorted(exported) == sorted(public)


def test_loads_on_glibc_2_17(library):
    versions = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", output("nm", "-D", library))}
    assert max(versions) <= (2, 17)
    needed = re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-d", library))
    assert sorted(needed) == ["libc.so.6", "libdl.so.2", "libpthread.so.0"]


def test_is_bound_at_load_stays_loaded_and_starts_one_thing(library):
    dynamic = output("readelf", "-d", library)
    flags = next(line for line in dynamic.splitlines() if "FLAGS_1" in line)
    assert "NOW" in flags and "NODELETE" in flags
    assert re.search(r"INIT_ARRAYSZ\)\s+8 ", dynamic), "one constructor"
    assert "FINI_ARRAY" not in dynamic and "TEXTREL" not in dynamic
    thread_local = [line for line in output("readelf", "-lW", library).splitlines() if line.split()[:1] == ["TLS"]]
    assert [int(line.split()[5], 16) for line in thread_local] == [8], "one pointer"


def test_is_small(library, tmp_path):
    stripped = tmp_path / "agent.so"
    output("strip", "-o", stripped, library)
    assert stripped.stat().st_size <= MAX_STRIPPED_BYTES
