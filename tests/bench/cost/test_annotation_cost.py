# SPDX-License-Identifier: Apache-2.0
"""Instructions of an annotation, counted by valgrind: the same on a busy machine. What they cost in time: script/bench annotate."""

import re
import subprocess

import pytest
from measure.daemon import AGENTS_ONLY, Daemon, folder
from measure.machine import BUILD

PAIRS = 1000
# Measured 2026 with gcc 12 plus a tenth. A clock reading that needs the kernel adds hundreds.
MOST_INSTRUCTIONS = {"EmptyPairs": 30, "RecordedPairs": 130, "TokenPairs": 160}


def instructions(function, environment):
    """Of one call of `function` for PAIRS pairs, what it calls included."""
    result = subprocess.run(
        [
            "valgrind",
            "--tool=callgrind",
            f"--toggle-collect={function}",
            "--callgrind-out-file=/dev/null",
            BUILD / "tests" / "annotation_pairs",
            "1",
            str(PAIRS),
        ],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return int(re.search(r"Collected : (\d+)", result.stderr).group(1))


@pytest.mark.parametrize("function", MOST_INSTRUCTIONS)
def test_a_pair_takes_few_instructions(function, capsys):
    with folder() as work, Daemon(work / "data", *AGENTS_ONLY) as daemon:
        counted = instructions(function, daemon.agent_environment())
    pairs = PAIRS // 4 if function == "TokenPairs" else PAIRS
    with capsys.disabled():
        print(f"\n  {function}: {counted / pairs:.1f} instructions a pair")
    assert 0 < counted / pairs <= MOST_INSTRUCTIONS[function]
