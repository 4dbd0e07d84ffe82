# SPDX-License-Identifier: Apache-2.0
"""A median over rounds with its spread and its 95 % bootstrap interval, and what may be said about it.

Rounds pair the runs: differences and ratios are taken within a round, so that drift of the machine falls out.
"""

import random
import statistics
from dataclasses import dataclass

RESAMPLES = 2000
# Below it even the whole spread holds the median with less than 95 % confidence (1 - 2 × 0.5^n): nothing can be claimed.
FEWEST_ROUNDS = 6


@dataclass(frozen=True)
class Estimate:
    median: float
    smallest: float
    largest: float
    low: float
    high: float
    rounds: int

    def against(self, budget):
        """What the interval says about a budget that must not be exceeded."""
        if self.rounds < FEWEST_ROUNDS:
            return f"not shown, fewer than {FEWEST_ROUNDS} rounds"
        if self.low <= budget <= self.high:
            return "not shown"
        return "met" if self.high < budget else "missed"

    def text(self, digits=2):
        return (
            f"{self.median:.{digits}f} [{self.low:.{digits}f} … {self.high:.{digits}f}]"
            f" ({self.smallest:.{digits}f} … {self.largest:.{digits}f})"
        )


def estimate(values):
    """The same values give the same interval: the resampling is seeded."""
    source = random.Random(1)
    medians = sorted(statistics.median(source.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return Estimate(
        median=statistics.median(values),
        smallest=min(values),
        largest=max(values),
        low=medians[int(RESAMPLES * 0.025)],
        high=medians[int(RESAMPLES * 0.975) - 1],
        rounds=len(values),
    )


def added(with_tracer, without, scale):
    """Differences of paired runs, times `scale`."""
    return estimate([scale * (a - b) for a, b in zip(with_tracer, without)])


def ratio(with_tracer, without):
    return estimate([a / b for a, b in zip(with_tracer, without)])


def verdict(seen, budget, aim=None):
    """ "met", "missed" or "not shown" for the floor, and whether the aim is met too."""
    said = seen.against(budget)
    return said + ", aim met" if said == "met" and aim is not None and seen.high < aim else said
