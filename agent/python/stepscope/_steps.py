# SPDX-License-Identifier: Apache-2.0
"""Training steps: named by the user with step() or steps(), or found at the optimizer when the script names none.

A step is the step-domain span "step" with its number. User steps nest around the work of their thread. Automatic ones run
from the end of one optimizer step to the end of the next, which need not nest with anything, so they are tokens. The first
use of step() or steps() in a process ends the automatic ones for good: no step is counted twice.
"""

import os
import threading
import weakref

from . import _agent

STEP_DOMAIN = 1  # enum stepscope_domain in stepscope.h

_named_by_user = False


def step(number):
    """The span of training step `number`: `with ss.step(i): ...`."""
    global _named_by_user
    _named_by_user = True
    return _agent.span("step", STEP_DOMAIN, number)


def steps(iterable, start=0):
    """Iterates over `iterable`, one step per item: `for batch in ss.steps(loader): ...`.

    Step i covers fetching item i and the loop body. An iterable without a length may turn out to have no next item, and that
    look must not count as a step: there the step covers the body alone.
    """
    global _named_by_user
    _named_by_user = True
    return _Steps(iterable, start)


class _Steps:
    """Numbers run on when the same object is iterated again, as in one loop per epoch."""

    def __init__(self, iterable, start):
        self._iterable = iterable
        self._next_number = start

    def __len__(self):
        return len(self._iterable)

    def __iter__(self):
        items = iter(self._iterable)
        for _ in range(_length_or_zero(self._iterable)):
            with self._next_step():
                try:
                    item = next(items)
                except StopIteration:
                    return
                yield item
        for item in items:
            with self._next_step():
                yield item

    def _next_step(self):
        number = self._next_number
        self._next_number += 1
        return step(number)


def _length_or_zero(iterable):
    try:
        return len(iterable)
    except Exception:  # a DataLoader over an IterableDataset raises TypeError, others what they like
        return 0


class AutomaticSteps:
    """Steps of each thread from the optimizer it steps first. Later optimizers of the same loop (a discriminator, say) are
    no boundary; when the first one is gone, the next one seen takes its place."""

    def __init__(self):
        self._threads = threading.local()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def after_optimizer_step(self, optimizer):
        here = self._threads
        if _named_by_user:
            _agent.end(getattr(here, "token", None))
            here.token = None
            return
        boundary = getattr(here, "boundary", None)
        if boundary is None or boundary() is None:
            here.boundary = weakref.ref(optimizer)
        elif boundary() is not optimizer:
            return
        _agent.end(getattr(here, "token", None))
        here.number = getattr(here, "number", 0) + 1
        here.token = _agent.begin(_agent.span("step", STEP_DOMAIN, here.number))

    def _forget(self):
        self._threads = threading.local()
