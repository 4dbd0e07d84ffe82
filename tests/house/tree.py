# SPDX-License-Identifier: Apache-2.0
"""The files of the repository, for the tests in this folder: what git tracks or would track, as paths from the root."""

import subprocess
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@lru_cache(maxsize=1)
def all_files():
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
    ).stdout.decode()
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def text_of(name):
    """The file's text, or None for a binary file, as every seed of a fuzz target is."""
    raw = (ROOT / name).read_bytes()
    return None if b"\0" in raw or name.startswith("tests/fuzz/corpus/") else raw.decode("utf-8")


def is_shell(name):
    if name.endswith(".sh"):
        return True
    return "." not in Path(name).name and (text_of(name) or "").startswith("#!/usr/bin/env bash")
