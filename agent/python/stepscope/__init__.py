# SPDX-License-Identifier: Apache-2.0
"""Names for what a training process is doing, next to what the machine was doing.

    import stepscope as ss
    for batch in ss.steps(loader):
        with ss.annotate("forward"): ...
    ss.counter("loss", loss); ss.mark("eval"); ss.info(lr=3e-4)

Importing never fails and never prints. Without a daemon, or where the agent cannot be loaded, every call does nothing and
state() says why. Arguments of the wrong type raise TypeError; nothing else here raises.
"""

import sys as _sys


def _load_agent():
    """The C extension, or the stand-in that knows why there is none."""
    from . import _no_agent

    if _sys.implementation.name != "cpython" or _sys.version_info < (3, 10):
        return _no_agent.because(
            "off: Python %d.%d (%s) is not supported; use CPython 3.10 or later"
            % (_sys.version_info[0], _sys.version_info[1], _sys.implementation.name)
        )
    if "t" in getattr(_sys, "abiflags", ""):
        return _no_agent.because("off: free-threaded Python is not supported; use the default build of CPython")
    try:
        from . import _agent
    except BaseException as error:  # a broken library must not break the training script
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return _no_agent.because("off: extension not loaded: %s; reinstall stepscope" % error)
    return _agent


_agent = _load_agent()

from . import _decorate, _steps  # noqa: E402  both need the agent chosen above

_agent.Annotation._decorate = staticmethod(_decorate.decorate)
_agent.Annotation._rebuild = staticmethod(_agent.annotate)

Annotation = _agent.Annotation
annotate = _agent.annotate
begin = _agent.begin
end = _agent.end
mark = _agent.mark
counter = _agent.counter
start = _agent.start
stop = _agent.stop
state = _agent.state
lost = _agent.lost
step = _steps.step
steps = _steps.steps


def info(**facts):
    """Facts about the job, such as info(lr=3e-4, model="tiny"). Values are recorded as text, cut at 4 KB."""
    for key, value in facts.items():
        try:
            text = str(value)
        except Exception:
            text = "<%s without a text form>" % type(value).__name__
        _agent.info(key, text)


def flush(timeout=1.0):
    """Asks for everything recorded so far to be stored now and waits up to `timeout` seconds. True: it is stored.

    For tests and orderly ends; never needed for safety.
    """
    return _agent.flush(max(0, min(int(timeout * 1000), 2**31 - 1)))


def open(job="last"):
    """Will open a recorded job as tables; not part of this release."""
    raise NotImplementedError(
        "stepscope.open(%r) comes with a later release; until then run `stepscope report --format json` "
        "or read the job's Parquet files" % (job,)
    )


__all__ = [
    "Annotation",
    "annotate",
    "begin",
    "counter",
    "end",
    "flush",
    "info",
    "lost",
    "mark",
    "start",
    "state",
    "step",
    "steps",
    "stop",
]
