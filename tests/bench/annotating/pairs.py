# SPDX-License-Identifier: Apache-2.0
"""Runs in the interpreter under test: ns of one begin/end pair of everything that can annotate here, in turns.

    pairs.py TURNS CALLS

Prints {"state", "lost", "versions", "ns": {what: median over turns}}. Before each turn the daemon has everything of the one
before, so that no ring fills and the agent's thread sleeps. What does not import is left out.
"""

import importlib.metadata
import json
import statistics
import sys
import timeit

import stepscope as ss


class Empty:
    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        return None


scope = {"ss": ss, "Empty": Empty, "empty": Empty(), "kept": ss.annotate("kept")}
statements = {
    "loop": "pass",
    "empty object, kept": "with empty: pass",
    "empty object, new": "with Empty(): pass",
    "annotate, kept": "with kept: pass",
    "annotate, by name": "with ss.annotate('forward'): pass",
    "token": "ss.end(ss.begin('token'))",
    "step": "with ss.step(3): pass",
}
versions = {}


def peer(package, names, made):
    """Adds the statements of a peer that is installed; `made` gives what they use."""
    try:
        scope.update(made())
        versions[package] = importlib.metadata.version(package)
        statements.update(names)
    except ImportError:
        pass


def nvtx_scope():
    import nvtx

    domain = nvtx.get_domain("bench")
    return {"nvtx": nvtx, "domain": domain, "attributes": domain.get_event_attributes(message="forward")}


def torch_scope():
    from torch.profiler import record_function

    return {"record_function": record_function}


def opentelemetry_scope():
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return {"tracer": provider.get_tracer("bench"), "exporter": exporter}


peer(
    "nvtx",
    {
        "nvtx domain push/pop": "domain.push_range(attributes); domain.pop_range()",
        "nvtx.annotate": "with nvtx.annotate('forward'): pass",
    },
    nvtx_scope,
)
peer("torch", {"torch record_function": "with record_function('forward'): pass"}, torch_scope)
peer(
    "opentelemetry-sdk",
    {"OpenTelemetry span": "with tracer.start_as_current_span('forward'): pass"},
    opentelemetry_scope,
)

turns, calls = int(sys.argv[1]), int(sys.argv[2])
seen = {name: [] for name in statements}
for turn in range(turns + 1):
    ss.flush(5)
    if "exporter" in scope:
        scope["exporter"].clear()
    for name, statement in statements.items():
        ns = timeit.timeit(statement, globals=scope, number=calls) / calls * 1e9
        if turn > 0:  # the first warms up
            seen[name].append(ns)
print(
    json.dumps(
        {
            "state": ss.state(),
            "lost": ss.lost(),
            "versions": versions,
            "ns": {name: statistics.median(values) for name, values in seen.items()},
        }
    )
)
