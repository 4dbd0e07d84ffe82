# SPDX-License-Identifier: Apache-2.0
"""Adds up what the suites of script/test left behind and says the closing line.

Called as `test_summary.py RESULTS EXPECTED_SKIPS`. Each folder of RESULTS is a suite with a file `status` (exit status,
seconds), JUnit files from ctest and pytest, and cases.tsv. A suite that exited non-zero without a failed test counts as
one failure, as does one that ran nothing; with CI=true so does a skip that EXPECTED_SKIPS does not list.
"""

import os
import re
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

GTEST_SKIP = re.compile(r"^\[  SKIPPED \] (\S+\.\S+)(?: \(\d+ ms\))?$", re.MULTILINE)


@dataclass
class Suite:
    name: str
    exit_status: int
    seconds: float
    passed: list = field(default_factory=list)
    failed: list = field(default_factory=list)  # (test, reason)
    skipped: list = field(default_factory=list)  # (test, reason)


@dataclass(frozen=True)
class ExpectedSkip:
    suite: str
    pattern: str


def read_expected_skips(path):
    """Lines `SUITE TEST-GLOB  # reason`; blank lines and lines that start with # are comments."""
    expected = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        rule, mark, reason = line.partition(" # ")
        words = rule.split()
        if len(words) != 2 or not mark or not reason.strip():
            raise SystemExit(f"{path}:{number}: want 'SUITE TEST-GLOB  # reason', got {line!r}")
        expected.append(ExpectedSkip(*words))
    return expected


def is_expected(suite, test, expected):
    return any(rule.suite == suite and fnmatchcase(test, rule.pattern) for rule in expected)


def first_line(text):
    return (text or "").strip().split("\n")[0][:200]


def add_junit_case(suite, case):
    name, group = case.get("name"), case.get("classname", "")
    if group not in ("", name):  # pytest gives the dotted module; ctest repeats the name
        name = f"{group.replace('.', '/')}::{name}"
    bad = case.find("failure") if case.find("failure") is not None else case.find("error")
    skip = case.find("skipped")
    hidden = GTEST_SKIP.findall(case.findtext("system-out") or "")
    if bad is not None:
        suite.failed.append((name, first_line(bad.get("message"))))
    elif skip is not None and skip.get("type") == "pytest.xfail":
        suite.passed.append(name)
    elif skip is not None or case.get("status") == "disabled" or name in hidden:
        suite.skipped.append((name, first_line(skip.get("message") if skip is not None else "")))
    else:
        suite.passed.append(name)
        suite.skipped += [(inner, "skipped inside " + name) for inner in sorted(set(hidden))]


def read_suite(folder):
    status, seconds = (folder / "status").read_text().split()
    suite = Suite(folder.name, int(status), float(seconds))
    for report in sorted(folder.glob("*.xml")):
        for case in ET.parse(report).iter("testcase"):
            add_junit_case(suite, case)
    cases = folder / "cases.tsv"
    for line in cases.read_text().splitlines() if cases.exists() else ():
        kind, name, reason = line.split("\t")
        if kind == "passed":
            suite.passed.append(name)
        else:
            getattr(suite, kind).append((name, reason))
    if suite.exit_status and not suite.failed:
        suite.failed.append(
            (suite.name, f"the suite ended with exit status {suite.exit_status} before or beside its tests")
        )
    if not (suite.passed or suite.failed or suite.skipped):
        suite.failed.append((suite.name, "the suite ran no test"))
    return suite


def refuse_unexpected_skips(suite, expected):
    unexpected = [(test, why) for test, why in suite.skipped if not is_expected(suite.name, test, expected)]
    suite.skipped = [entry for entry in suite.skipped if entry not in unexpected]
    suite.failed += [
        (test, f"skipped in CI and not listed in tests/expected_skips as '{suite.name} {test}  # reason' ({why})")
        for test, why in unexpected
    ]


def print_table(suites):
    print(f"\n{'suite':<10} {'seconds':>8} {'passed':>7} {'failed':>7} {'skipped':>8}")
    for suite in suites:
        counts = f"{len(suite.passed):>7} {len(suite.failed):>7} {len(suite.skipped):>8}"
        print(f"{suite.name:<10} {suite.seconds:>8.1f} {counts}")
    for word, kind in (("skipped", "skipped"), ("FAILED", "failed")):
        for suite in suites:
            for test, reason in getattr(suite, kind):
                print(f"{word} {suite.name}: {test}: {reason}")


def main(results, expected_skips):
    expected = read_expected_skips(Path(expected_skips))
    folders = sorted(Path(results).iterdir(), key=lambda folder: (folder / "status").stat().st_mtime)
    suites = [read_suite(folder) for folder in folders]
    if os.environ.get("CI") == "true":
        for suite in suites:
            refuse_unexpected_skips(suite, expected)
    print_table(suites)
    passed, failed, skipped = (sum(len(getattr(s, k)) for s in suites) for k in ("passed", "failed", "skipped"))
    print(f"\n{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
