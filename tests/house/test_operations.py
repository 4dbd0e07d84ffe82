# SPDX-License-Identifier: Apache-2.0
"""docs/operations.md knows every metric the daemon exports and every line it logs for an operator, and no others."""

import re

from tree import all_files, text_of

PAGE = text_of("docs/operations.md")
LOGGED = re.compile(r'spdlog::(info|warn|error)\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)')


def daemon_sources():
    return {name: text_of(name) for name in all_files() if re.match(r"(daemon|storage)/.*\.cc$", name)}


def table_cells(column):
    return [row.split(" | ")[column].strip("| ") for row in PAGE.splitlines() if row.startswith("| ")]


def test_every_metric_is_explained_and_exists():
    exported = set(re.findall(r'(?:Gauge|Counter)\(\s*"(\w+)"', text_of("daemon/web/metrics.cc")))
    explained = {
        cell.strip("`").split("{")[0] for cell in table_cells(0) if re.match(r"`(stepscope|process)_\w+", cell)
    }
    assert exported and explained == exported


def logged_lines():
    lines = set()
    for name, text in daemon_sources().items():
        found = LOGGED.findall(text)
        assert len(found) == len(re.findall(r"spdlog::(?:info|warn|error)\(", text)), f"{name}: a line without its text"
        for level, literals in found:
            line = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literals)).replace('\\"', '"')
            lines.add((level, re.sub(r"\{[^}]*\}", "…", line)))
    return lines


def test_every_log_line_is_explained_and_exists():
    levels, quoted = table_cells(0), table_cells(1)
    rows = zip(levels, quoted, strict=True)
    explained = {(level, line.strip("`")) for level, line in rows if level in ("info", "warn", "error")}
    assert logged_lines() and explained == logged_lines()
