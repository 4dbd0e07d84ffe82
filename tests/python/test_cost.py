# SPDX-License-Identifier: Apache-2.0
"""What an annotation costs, as a ratio to an empty context object of the same interpreter, measured in turns. All of it fits
into one ring, so with a receiver that never frees space it is the cost of recording, not of dropping."""

import json

import pytest

MEASURE = """
    import json, timeit
    import stepscope as ss
    class Empty:
        def __enter__(self): return self
        def __exit__(self, kind, error, traceback): return None
    empty, kept = Empty(), ss.annotate("kept")
    statements = {
        "loop": "pass",
        "empty object, kept": "with empty: pass",
        "empty object, new": "with Empty(): pass",
        "annotation, kept": "with kept: pass",
        "annotation, by name": "with ss.annotate('forward'): pass",
        "token": "ss.end(ss.begin('token'))",
        "counter": "ss.counter('loss', 0.5)",
        "step": "with ss.step(3): pass",
    }
    best = dict.fromkeys(statements, 1e9)
    for _ in range(20):
        for name, statement in statements.items():
            best[name] = min(best[name], timeit.timeit(statement, globals=globals(), number=60) / 60 * 1e9)
    print(json.dumps({"state": ss.state(), "lost": ss.lost(), "ns": best}))
"""


@pytest.mark.parametrize("daemon", ["daemon absent", "recording"])
def test_an_annotation_costs_about_as_much_as_an_empty_context_object(scripts, daemon, capsys):
    if daemon == "recording":
        from receiver import Receiver

        with Receiver() as receiver:
            result = json.loads(scripts.run(MEASURE, socket=receiver.path).stdout)
    else:
        result = json.loads(scripts.run(MEASURE).stdout)
    assert (result["lost"] == 0) == (daemon == "recording")
    ns = result["ns"]
    kept = (ns["annotation, kept"] - ns["loop"]) / (ns["empty object, kept"] - ns["loop"])
    by_name = (ns["annotation, by name"] - ns["loop"]) / (ns["empty object, new"] - ns["loop"])
    with capsys.disabled():
        print(
            f"\n  {daemon} ({result['state']}, {result['lost']} lost): "
            + ", ".join(f"{k} {v:.0f} ns" for k, v in ns.items())
        )
        print(f"  ratio to an empty context object: kept {kept:.2f}, by name {by_name:.2f}")
    assert kept < 3 and by_name < 3
