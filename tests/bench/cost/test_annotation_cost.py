# SPDX-License-Identifier: Apache-2.0
"""Instructions of an annotation. What they cost in time: script/bench annotate."""

import pytest
from measure.daemon import AGENTS_ONLY, Daemon, folder
from measure.instructions import count
from measure.machine import BUILD

PAIRS = 1000
# A tenth more than today. Valgrind's CPU promises no steady time stamp counter, so two clock_gettime are in each pair.
MOST_INSTRUCTIONS = {"EmptyPairs": 18, "RecordedPairs": 231, "TokenPairs": 264}


@pytest.mark.parametrize("function", MOST_INSTRUCTIONS)
def test_a_pair_takes_few_instructions(function, capsys):
    pairs = PAIRS // 4 if function == "TokenPairs" else PAIRS
    with folder() as work, Daemon(work / "data", *AGENTS_ONLY) as daemon:
        counted, _ = count([BUILD / "tests" / "annotation_pairs", 1, PAIRS], [function], daemon.agent_environment())
    with capsys.disabled():
        print(f"\n  {function}: {counted / pairs:.1f} instructions a pair")
    assert 0 < counted / pairs <= MOST_INSTRUCTIONS[function]
