# SPDX-License-Identifier: Apache-2.0
"""The page script/bench sched prints: how it was measured, one table for the pipe, one for whole programs, what is claimed."""

import pathlib
import statistics

from measure.interval import added, ratio
from measure.machine import ROOT, heading, said
from scheduling.workloads import TORCH_PYTHON

BUDGET_US_PER_SWITCH = 0.6
BUDGET_BYTES_PER_SWITCH = 8
OURS = "stepscope"
HISTOGRAM = "stepscope, histogram"
RUNQLAT = "runqlat"
PLACEHOLDER = pathlib.Path("DIR")


def page(options, load, tracers, absent, results):
    parts = [opening(options, load, tracers, absent, results)]
    if "pipe" in results:
        parts += [pipe_table(*results["pipe"]), pipe_claims(*results["pipe"])]
    whole = [result for name, result in results.items() if name != "pipe"]
    if whole:
        parts.append(whole_program_table(whole))
    parts.append(notes())
    return "\n\n".join(parts) + "\n"


def opening(options, load, tracers, absent, results):
    quick = " --quick" if options.quick else ""
    lines = [
        heading("What recording every switch costs", f"script/bench sched --rounds {options.rounds}{quick}", load),
        f"{said('perf', '--version')}, {said('bpftrace', '--version')}.",
        "A round runs every tracer once, in an order that moves by one each round; all output goes to memory. A cell is the",
        "median over rounds, in square brackets the 95 % bootstrap interval of that median, in round ones the extreme rounds.",
        "",
        "Workloads:",
        *(f"- {workload.name}: `{command_text(workload.words)}`" for workload, _ in results.values()),
        "",
        "Tracers, each started before the workload and stopped after it:",
        *(f"- {t.name}: `{command_text(t.command(PLACEHOLDER))}`" for t in tracers if t.command(PLACEHOLDER)),
        *(f"- {absence(name, why)}" for name, why in absent.items()),
    ]
    return "\n".join(lines)


def command_text(words):
    """As one would type it in the checkout."""
    text = " ".join(str(word) for word in words).replace(f"{ROOT}/", "")
    return text.replace(TORCH_PYTHON, "python") if TORCH_PYTHON else text


def absence(name, why):
    why = why.replace(f"{ROOT}/", "")
    if name.startswith(OURS):
        return f"{name}: not built ({why})"
    return f"{name}: peer {why}"


def pipe_table(pipe, runs):
    base = [measured for measured, _ in runs["untraced"]]
    lines = [
        f"## Pipe: {pipe.switches:,} switches on one CPU",
        "",
        "| | µs a switch | added µs a switch | stored bytes a switch | recorded | lost | CPU s (set-up) | RSS MB |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, rows in runs.items():
        measured = [value for value, _ in rows]
        extra = "" if name == "untraced" else added(measured, base, 1e6 / pipe.switches).text()
        cells = [name, f"{1e6 * statistics.median(measured) / pipe.switches:.2f}", extra, *cost_cells(pipe, name, rows)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cost_cells(pipe, name, rows):
    if name == "untraced":
        return [""] * 5
    costs = [cost for _, cost in rows]

    def middle(key):
        known = [getattr(cost, key) for cost in costs if getattr(cost, key) is not None]
        return statistics.median(known) if known else None

    def count(key):
        return "" if middle(key) is None else f"{middle(key):,.0f}"

    stored = f"{middle('stored_bytes') / pipe.switches:.1f}"
    if name.startswith(OURS):
        stored += f", whole directory {middle('on_disk_bytes') / pipe.switches:.1f}"
    lost = "" if middle("lost") is None else f"{max(cost.lost for cost in costs):,}"
    return [
        stored,
        count("recorded"),
        lost,
        f"{middle('cpu_s'):.2f} ({middle('setup_cpu_s'):.2f})",
        f"{middle('rss_mb'):.0f}",
    ]


def pipe_claims(pipe, runs):
    """One line per claim, each with its interval."""
    if OURS not in runs:
        return f"{OURS} did not run: nothing is claimed."
    ours = [measured for measured, _ in runs[OURS]]
    base = [measured for measured, _ in runs["untraced"]]
    cost = added(ours, base, 1e6 / pipe.switches)
    stored = max(c.stored_bytes for _, c in runs[OURS]) / pipe.switches
    lost = max(c.lost for _, c in runs[OURS])
    lines = [
        f"- Added µs a switch at most {BUDGET_US_PER_SWITCH}: {cost.against(BUDGET_US_PER_SWITCH)}"
        f" ({cost.low:.2f} … {cost.high:.2f}).",
        f"- Stored bytes a switch at most {BUDGET_BYTES_PER_SWITCH}:"
        f" {'met' if stored <= BUDGET_BYTES_PER_SWITCH else 'missed'} ({stored:.1f}, the largest round).",
        f"- No record lost: {'met' if lost == 0 else f'missed ({lost:,} in the worst round)'}.",
    ]
    for name, rows in runs.items():
        if name in ("untraced", OURS, HISTOGRAM):
            continue
        rival = HISTOGRAM if name.startswith(RUNQLAT) else OURS
        if rival not in runs:
            lines.append(f"- {rival} cheaper than {name}: not built.")
            continue
        more = added([m for m, _ in runs[rival]], [m for m, _ in rows], 1e6 / pipe.switches)
        lines.append(
            f"- {rival} cheaper than {name}: {more.against(0)} ({more.low:.2f} … {more.high:.2f} µs a switch)."
        )
    return "\n".join(lines)


def whole_program_table(results):
    names = list(dict.fromkeys(name for _, runs in results for name in runs if name != "untraced"))
    lines = [
        "## Whole programs: ratio to untraced",
        "",
        "| | untraced | " + " | ".join(names) + " |",
        "| --- |" + " --- |" * (len(names) + 1),
    ]
    for workload, runs in results:
        base = [measured for measured, _ in runs["untraced"]]
        cells = [f"{statistics.median(base):.2f} {workload.unit}"]
        for name in names:
            if name not in runs:
                cells.append("not run")
                continue
            seen = ratio([measured for measured, _ in runs[name]], base)
            cells.append(f"{seen.text(3)} {seen.against(1) if 'not shown' in seen.against(1) else ''}".rstrip())
        lines.append(f"| {workload.name}, {len(base)} rounds | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def notes():
    return """- Added µs a switch: the pipe's time under the tracer less its time untraced in the same round, over its
  switches. The wake that leads to a switch is in it.
- stepscope stores every turn with its wait, waker, syscall and the kernel's own counters; stored bytes are those of its sealed
  blocks, the whole directory is all files after a clean stop, the store's own logs among them.
- perf sched record and bpftrace record the whole machine, which does little else here. bpftrace prints the fields of our record
  that it can reach; perf's record has no waker thread, counters or syscall. perf leaves out some switches by itself.
- CPU is that of the tracer's process from its start to its end, in brackets until it recorded; work it makes for the traced
  program shows in the added time instead. The time of `stepscope run`, which waits, is not in it."""
