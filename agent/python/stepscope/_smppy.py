# SPDX-License-Identifier: Apache-2.0
"""The script API of Amazon SageMaker Profiler, recorded by stepscope: what `smppy` and `smprof` hold (docs/smppy.md).

Names and behaviour follow the SageMaker developer guide, page "Prepare and run a training job with SageMaker Profiler"
(called the guide below), and the public samples. Where neither defines something, the doc string says so.

Like stepscope itself: importing never fails and never prints, and without a daemon every call does nothing.
"""

import difflib
import logging
import os
import re

from . import _agent, _steps

_log = logging.getLogger("stepscope.smppy")

# Options seen in the guide (EnableCuda) and in public scripts (the rest). All are accepted; what each means here instead:
_OPTIONS = {
    "EnableCuda": "this release records no GPU activity",
    "EnablePerf": "the daemon records CPU events of the node whenever it may",
    "EnableForkFollow": "child processes are always followed",
    "BucketCount": "the agent sizes its buffers itself",
    "BucketSizeMB": "the agent sizes its buffers itself",
    "Compression": "the store compresses by itself",
    "RecordFile": "records go to the daemon's store, from there to Parquet files by upload",
}

_step_name = re.compile(r"step_([0-9]{1,18})").fullmatch


class Config:
    """Options for SMProfiler.configure(). Source: the guide.

    `profiler` is a dict of option name to text, such as {"EnableCuda": "1"}; it starts empty. No option has an effect.
    """

    __slots__ = ("profiler",)

    def __init__(self):
        self.profiler = {}


class SMProfiler:
    """Marks windows of the recording, which itself is always on. Source of all methods: the guide."""

    @staticmethod
    def instance():
        """The one profiler of the process."""
        return _profiler

    def configure(self, config):
        """Checks the options of a Config. Known ones are noted to the logger "stepscope.smppy" (level INFO).

        Raises ValueError for an option that neither the guide nor a public script knows (not defined by the guide).
        """
        for option in config.profiler:
            if option not in _OPTIONS:
                raise ValueError(_unknown(option))
            _log.info("option %s is accepted without effect: %s", option, _OPTIONS[option])

    def start_profiling(self):
        """Opens a window, as stepscope.start(). May be repeated after stop_profiling(), as in one window per epoch (public
        samples). In an open window it changes nothing (not defined by the guide)."""
        self._opened_by = os.getpid()
        _agent.start()

    def stop_profiling(self):
        """Closes the window, as stepscope.stop(). Without one in this process it does nothing (not defined by the guide)."""
        if self.__dict__.pop("_opened_by", None) == os.getpid():  # one step: a lock could be held across a fork
            _agent.stop()


_profiler = SMProfiler()


def annotate(name):
    """A named span, for `with` (source: the guide) and as a decorator (not defined by the guide). `step_<i>` is training step
    i: the guide names steps so, and its dashboard draws their durations."""
    return _span(name) or _agent.annotate(name)


def annotation_begin(name):
    """Opens a span and returns its token. Spans of tokens may overlap and end on another thread. Source: the guide, but for
    what may overlap. `step_<i>` is training step i."""
    return _agent.begin(_span(name) or name)


def annotation_end(token):
    """Closes the span of `token`; a second time changes nothing (not defined by the guide). Source: the guide."""
    _agent.end(token)


def _span(name):
    """The step that `name` stands for, or None."""
    number = _step_name(name) if isinstance(name, str) else None
    return _steps.step(int(number[1])) if number else None


def _unknown(option):
    nearest = difflib.get_close_matches(str(option), _OPTIONS, n=1, cutoff=0)[0]
    return "smppy has no option %r; the nearest is %r, all are: %s" % (option, nearest, ", ".join(_OPTIONS))


if "SMP_ENABLE_CUDA" in os.environ:  # seen in a public script, set before the import
    _log.info("SMP_ENABLE_CUDA is accepted without effect: %s", _OPTIONS["EnableCuda"])

__all__ = ["Config", "SMProfiler", "annotate", "annotation_begin", "annotation_end"]
