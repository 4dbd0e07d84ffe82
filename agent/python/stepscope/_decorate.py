# SPDX-License-Identifier: Apache-2.0
"""`@annotate("name")` on a function of any kind: the span covers what the function does, not what calling it returns.

A coroutine or generator may be suspended while its caller opens and closes spans of its own, so those use tokens, which may
overlap; a plain function nests.
"""

import functools
import inspect

from . import _agent


def decorate(annotation, function):
    if inspect.iscoroutinefunction(function):
        return _around_coroutine(annotation, function)
    if inspect.isasyncgenfunction(function):
        return _around_async_generator(annotation, function)
    if inspect.isgeneratorfunction(function):
        return _around_generator(annotation, function)
    if not callable(function):
        raise TypeError("%r decorates functions, not %r" % (annotation, type(function)))

    @functools.wraps(function)
    def inside_span(*args, **kwargs):
        with annotation:
            return function(*args, **kwargs)

    return inside_span


def _around_coroutine(annotation, function):
    @functools.wraps(function)
    async def inside_span(*args, **kwargs):
        token = _agent.begin(annotation)
        try:
            return await function(*args, **kwargs)
        finally:
            _agent.end(token)

    return inside_span


def _around_generator(annotation, function):
    @functools.wraps(function)
    def inside_span(*args, **kwargs):
        token = _agent.begin(annotation)
        try:
            return (yield from function(*args, **kwargs))
        finally:
            _agent.end(token)

    return inside_span


def _around_async_generator(annotation, function):
    @functools.wraps(function)
    async def inside_span(*args, **kwargs):
        token = _agent.begin(annotation)
        try:
            async for item in function(*args, **kwargs):
                yield item
        finally:
            _agent.end(token)

    return inside_span
