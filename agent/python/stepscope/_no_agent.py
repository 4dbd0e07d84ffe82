# SPDX-License-Identifier: Apache-2.0
"""Stands in for the C extension where it cannot be loaded: the same names and the same TypeErrors, and no effect."""

import operator

_reason = "off: the agent is not loaded"


def because(reason):
    """This module, with `reason` as its state()."""
    import sys

    global _reason
    _reason = reason
    return sys.modules[__name__]


def _check_name(text):
    if not isinstance(text, str):
        raise TypeError("a stepscope name must be a str, not %r; wrap it in str()" % (type(text),))


class Annotation:
    """A named span that records nothing."""

    __slots__ = ("name",)

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        return None

    def __call__(self, function):
        return self._decorate(self, function)

    def __repr__(self):
        return "stepscope.annotate(%r)" % (self.name,)

    def __reduce__(self):
        return (self._rebuild, (self.name,))


def annotate(name):
    _check_name(name)
    return Annotation(name)


def span(name, domain, number):
    _check_name(name)
    if number is not None:
        operator.index(number)
    return Annotation(name)


def traced(function, name, domain):
    return function


def begin(name):
    if not isinstance(name, Annotation):
        _check_name(name)
    return 0


def end(token):
    if token is not None and not isinstance(token, int):
        raise TypeError("end() takes the token that begin() returned, not %r" % (type(token),))


def mark(name):
    _check_name(name)


def counter(name, value):
    _check_name(name)
    if isinstance(value, str):
        raise TypeError("must be real number, not str")


def info(key, value):
    pass


def start():
    pass


def stop():
    pass


def state():
    return _reason


def lost():
    return 0


def flush(timeout_ms):
    return False
