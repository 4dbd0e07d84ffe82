# SPDX-License-Identifier: Apache-2.0
"""What an annotation costs: the C pair beside an empty call, Python beside an empty context object, nvtx, PyTorch, OpenTelemetry.

script/bench annotate [--rounds N] [--quick] [--write docs/measurements/annotate.md]
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

from measure.daemon import AGENTS_ONLY, Daemon, folder
from measure.interval import estimate, ratio, verdict
from measure.machine import BUILD, heading, publish, table

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = os.environ.get("STEPSCOPE_TORCH_PYTHON") or sys.executable
PEERS = os.environ.get("STEPSCOPE_PEERS", "")
MOST_C_NS = 40
MOST_PYTHON_RATIO = 1.5
MOST_TOKEN_RATIO = 2.0
PAIRS = 2000


def c_round(daemon, batches):
    """(ns of an empty pair, of a recorded pair, of a token pair): medians of one process."""
    out = subprocess.run(
        [BUILD / "tests" / "annotation_pairs", str(batches), str(PAIRS)],
        capture_output=True,
        text=True,
        check=True,
        env=daemon.agent_environment(),
    ).stdout
    columns = zip(*([float(word) for word in line.split()] for line in out.splitlines()))
    return [estimate(column).median for column in columns]


def python_round(daemon, turns):
    environment = daemon.agent_environment()
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(BUILD / "python"), PEERS]))
    command = [PYTHON, str(HERE / "annotating" / "pairs.py"), str(turns), "200"]
    seen = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)
    if seen["lost"] or seen["state"] != "recording":
        raise RuntimeError(f"not a measurement: {seen['state']}, {seen['lost']} records lost")
    return seen


def measure(options):
    c_rounds, python_rounds = [], []
    with folder() as work, Daemon(work / "data", *AGENTS_ONLY) as daemon:
        for number in range(options.rounds):
            c_rounds.append(c_round(daemon, options.batches))
            python_rounds.append(python_round(daemon, options.turns))
            print(
                f"round {number + 1}/{options.rounds}: C {c_rounds[-1]}, Python {python_rounds[-1]['ns']}", flush=True
            )
    return c_rounds, python_rounds


def net(rounds, name):
    """ns of each round, the empty loop taken off."""
    return [seen["ns"][name] - seen["ns"]["loop"] for seen in rounds]


def c_part(rounds):
    empty, recorded, token = map(list, zip(*rounds))
    pair, tokens = estimate(recorded), estimate(token)
    lines = [
        "## C",
        "",
        table(
            ["pair", "ns"],
            [
                ["two empty calls into a shared library", estimate(empty).text()],
                ["`stepscope_begin` + `stepscope_end`", pair.text()],
                ["`stepscope_token_begin` + `stepscope_token_end`", tokens.text()],
            ],
        ),
        "",
        f"- A pair takes at most {MOST_C_NS} ns: {verdict(pair, MOST_C_NS)} ({pair.low:.1f} … {pair.high:.1f}).",
    ]
    return "\n".join(lines)


def python_part(rounds):
    kept = ratio(net(rounds, "annotate, kept"), net(rounds, "empty object, kept"))
    by_name = ratio(net(rounds, "annotate, by name"), net(rounds, "empty object, new"))
    rows = [
        [name, estimate(net(rounds, name)).text(0), ratio(net(rounds, name), net(rounds, "empty object, kept")).text()]
        for name in rounds[0]["ns"]
        if name != "loop"
    ]
    lines = [
        "## Python",
        "",
        table(["pair", "ns, the empty loop taken off", "ratio to a kept empty context object"], rows),
        "",
        f"- `with` a kept annotation at most {MOST_PYTHON_RATIO} × `with` a kept empty object:"
        f" {verdict(kept, MOST_PYTHON_RATIO)} ({kept.low:.2f} … {kept.high:.2f}).",
        f"- `with annotate(name)` at most {MOST_PYTHON_RATIO} × `with` a new empty object:"
        f" {verdict(by_name, MOST_PYTHON_RATIO)} ({by_name.low:.2f} … {by_name.high:.2f}).",
        token_claim(rounds),
    ]
    return "\n".join(lines)


def token_claim(rounds):
    peer = "nvtx domain push/pop"
    if peer not in rounds[0]["ns"]:
        return "- Tokens beside nvtx: not measured, there is no nvtx (script/bootstrap --full)."
    token = ratio(net(rounds, "token"), net(rounds, peer))
    return (
        f"- A token at most {MOST_TOKEN_RATIO} × {peer}: {verdict(token, MOST_TOKEN_RATIO)}"
        f" ({token.low:.2f} … {token.high:.2f})."
    )


def page(options, load, c_rounds, python_rounds):
    versions = (
        ", ".join(f"{name} {version}" for name, version in python_rounds[0]["versions"].items()) or "none installed"
    )
    quick = " --quick" if options.quick else ""
    return f"""{heading("What an annotation costs", f"script/bench annotate --rounds {options.rounds}{quick}", load)}
Peers: {versions}; CPython {".".join(map(str, sys.version_info[:3]))}.
A round is one process of C and one of Python beside one daemon that stores everything; inside a process everything is measured
in turns, and its figure is the median over turns. Cells are the median over rounds, in square brackets its 95 % bootstrap
interval, in round ones the extreme rounds. A round that lost a record would be an error.

{c_part(c_rounds)}

{python_part(python_rounds)}

- nvtx and record_function without a tool or profiler listening: their cheapest state. Ours records and stores every pair.
- OpenTelemetry: SDK with an in-memory exporter.
- Commands: `annotation_pairs {options.batches} {PAIRS}`, `python tests/bench/annotating/pairs.py {options.turns} 200`.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--quick", action="store_true", help="few turns: whether it works, not what it costs")
    parser.add_argument("--write", type=pathlib.Path)
    options = parser.parse_args()
    options.batches, options.turns = (5, 5) if options.quick else (15, 20)
    load = os.getloadavg()[0]
    publish(page(options, load, *measure(options)), options.write)


if __name__ == "__main__":
    main()
