# SPDX-License-Identifier: Apache-2.0
"""docs/reliability.md names tests; each of them exists."""

import re

import pytest
from tree import all_files, text_of

PAGE = text_of("docs/reliability.md")
NAMED = sorted(set(re.findall(r"`(\w+\.\w+|test_\w+)`", PAGE)))


@pytest.fixture(scope="module")
def known():
    names = set()
    for path in all_files():
        if path.startswith("tests/") and path.endswith(".cc"):
            names |= {
                f"{suite}.{name}" for suite, name in re.findall(r"TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)", text_of(path))
            }
        if path.startswith("tests/") and path.endswith(".py"):
            names |= set(re.findall(r"^def (test_\w+)", text_of(path), re.MULTILINE))
    return names


def test_every_row_names_a_test():
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| promise", "| ---"))]
    assert rows and not [row for row in rows if not re.search(r"`(\w+\.\w+|test_\w+)`", row)]


@pytest.mark.parametrize("name", NAMED)
def test_the_named_test_exists(known, name):
    assert name in known, f"docs/reliability.md names {name}, which no file in tests/ has"
