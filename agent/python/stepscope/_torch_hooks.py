# SPDX-License-Identifier: Apache-2.0
"""Spans of a PyTorch script that names none: optimizer steps, training steps, data-loader waits and fetches.

Called once PyTorch is imported. Uses PyTorch's registered global optimizer hooks, and puts a frameless wrapper around three
data-loader methods, each only if it is still PyTorch's own: never over another tool's. Forked loader workers inherit them.
"""

import threading

from . import _agent, _no_agent, _steps

LOADER_DOMAIN = 2  # enum stepscope_domain in stepscope.h
OPTIMIZER_DOMAIN = 3

_installed = False


def install():
    """Returns nothing and raises nothing: a PyTorch without some of these parts goes without those spans."""
    global _installed
    if _installed or _agent is _no_agent:
        return
    _installed = True
    for part in (_hook_optimizers, _trace_loader, _trace_fetchers):
        try:
            part()
        except Exception:
            pass


def _hook_optimizers():
    from torch.compiler import is_compiling
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    span = _agent.span("optimizer.step", OPTIMIZER_DOMAIN, None)
    open_tokens = threading.local()
    automatic = _steps.AutomaticSteps()

    # Tokens: a step() that raises never reaches the post hook, and must not leave a nested span open around all that follows.
    def before(optimizer, args, kwargs):
        if is_compiling():
            return
        _agent.end(getattr(open_tokens, "token", None))
        open_tokens.token = _agent.begin(span)

    def after(optimizer, args, kwargs):
        if is_compiling():
            return
        _agent.end(getattr(open_tokens, "token", None))
        open_tokens.token = None
        automatic.after_optimizer_step(optimizer)

    register_optimizer_step_pre_hook(before)
    register_optimizer_step_post_hook(after)


def _trace_loader():
    from torch.utils.data import dataloader

    _trace_method(dataloader._BaseDataLoaderIter, "__next__", "dataloader.next")


def _trace_fetchers():
    from torch.utils.data._utils import fetch

    _trace_method(fetch._MapDatasetFetcher, "fetch", "dataloader.fetch")
    _trace_method(fetch._IterableDatasetFetcher, "fetch", "dataloader.fetch")


def _trace_method(owner, method, name):
    function = owner.__dict__.get(method)
    code = getattr(function, "__code__", None)
    if code is None or function.__module__ != owner.__module__ or hasattr(function, "__wrapped__"):
        return
    setattr(owner, method, _agent.traced(function, name, LOADER_DOMAIN))
