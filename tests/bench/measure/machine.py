# SPDX-License-Identifier: Apache-2.0
"""What every page says of the machine and the tree it was measured with, and what a program used."""

import os
import pathlib
import platform
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("STEPSCOPE_BUILD_DIR", ROOT / "build"))
BIN = BUILD / "bin"
MOST_IDLE_LOAD = 0.5


def said(*command):
    try:
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        return f"no {command[0]}"


def cpu_model():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(": ")[1].strip() for line in lines if line.startswith("model name")), "unknown CPU")


def heading(title, command, load):
    """The first lines of a page; `load` is the load average when the measurement began."""
    lines = [
        f"# {title}",
        "",
        f"Commit {said('git', '-C', ROOT, 'rev-parse', '--short=12', 'HEAD')}; `{command}`;",
        f"{os.cpu_count()} × {cpu_model()}, kernel {platform.release()}, load average {load:.2f} when it began.",
    ]
    if load > MOST_IDLE_LOAD:
        lines.append("The machine was not idle: times on this page say little.")
    return "\n".join(lines)


def table(header, rows):
    """A Markdown table; cells are anything with a text."""
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def cpu_seconds(pid):
    """CPU time of a process, threads that ended included, to the nanosecond: its CPU clock (man 3 clock_getcpuclockid)."""
    return time.clock_gettime((~pid << 3) | 2)


def status_mb(pid, key):
    """VmRSS or VmHWM of a process in MB (10^6 bytes)."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(key))


def publish(text, path):
    """Prints a page, and writes it where --write says."""
    print(text)
    if path:
        path.write_text(text)
