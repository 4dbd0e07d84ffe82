# SPDX-License-Identifier: Apache-2.0
"""Rules that every file of the repository keeps: a licence line, a telling name, a readable length, no foreign traces."""

import re
from pathlib import Path

from tree import all_files, is_shell, text_of

NEEDS_LICENCE = {
    ".cc",
    ".h",
    ".c",
    ".py",
    ".pyi",
    ".proto",
    ".cmake",
    ".toml",
    ".yaml",
    ".yml",
    ".service",
    ".ts",
    ".tsx",
}
NEEDS_LICENCE_NAMES = {"CMakeLists.txt", "Containerfile", ".clang-format", ".clang-tidy"}
LICENCE = re.compile(r"SPDX-License-Identifier: (Apache-2\.0|.*\bBSD-[23]-Clause\b.*)")
SOURCES = {".cc", ".h", ".c", ".py", ".proto", ".ts", ".tsx", ".sh"}
MAX_LINES = 500
VAGUE = {"util", "utils", "utility", "utilities", "helper", "helpers", "common", "manager", "misc", "stuff"}

# Split so that this file does not match itself.
FOREIGN = {
    "a path of one machine": r"/wo" r"rk/|/ro" r"ot/|/tmp/set" r"up|/home/\w+/",
    "a registry host": r"pypi\.o"
    r"rg|pythonho"
    r"sted|proxy\.gol"
    r"ang|registry\.np"
    r"mjs|deb\.debi"
    r"an|crates\.i"
    r"o\b",
    "work that is not the product": r"\bissue #?\d|\bcl" r"aude\b|\banthro" r"pic\b|\bTODO\b|\bFIXME\b",
}


def needs_licence(name):
    path = Path(name)
    return path.suffix in NEEDS_LICENCE or path.name in NEEDS_LICENCE_NAMES or is_shell(name)


def test_every_source_opens_with_its_licence():
    without = [
        name
        for name in all_files()
        if needs_licence(name) and not LICENCE.search("\n".join(text_of(name).split("\n")[:3]))
    ]
    assert without == []


def test_licence_file_is_the_apache_text():
    text = text_of("LICENSE")
    assert "Apache License" in text and "END OF TERMS AND CONDITIONS" in text


def test_file_names_tell_the_idea():
    vague = [name for name in all_files() if VAGUE & set(re.split(r"[_.\-]", Path(name).name.lower()))]
    assert vague == []


def test_sources_stay_short_enough_to_read():
    long = {name: text_of(name).count("\n") for name in all_files() if Path(name).suffix in SOURCES}
    assert {name: lines for name, lines in long.items() if lines > MAX_LINES} == {}


def test_the_tree_speaks_of_the_product_alone():
    found = []
    for name in all_files():
        for number, line in enumerate((text_of(name) or "").splitlines(), 1):
            found += [
                f"{name}:{number}: {what}: {line.strip()[:80]}"
                for what, rule in FOREIGN.items()
                if re.search(rule, line, re.I)
            ]
    assert found == []


def test_text_files_end_with_one_newline():
    bad = [
        name
        for name in all_files()
        if Path(name).suffix in SOURCES | {".md"} and not re.search(r"[^\n]\n\Z", text_of(name))
    ]
    assert bad == []
