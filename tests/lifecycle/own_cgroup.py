# SPDX-License-Identifier: Apache-2.0
"""A cgroup of a test's own with a limit of the memory or the pids controller, version 1 or 2 as the machine has it."""

import os
import pathlib
import re

V1_FILES = {"memory.max": "memory.limit_in_bytes"}


class OwnCgroup:
    def __init__(self, controller):
        """Raises OSError where none can be made."""
        self.is_v1 = False
        point = None
        for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
            _, where, kind, options = line.split()[:4]
            if kind == "cgroup" and controller in options.split(","):
                point, self.is_v1 = where, True
            elif kind == "cgroup2" and point is None:
                point = where
        if point is None:
            raise OSError(f"no cgroup hierarchy with {controller}")
        if not self.is_v1 and controller not in pathlib.Path(point, "cgroup.subtree_control").read_text().split():
            raise OSError(f"{controller} is not on below the root of {point}")
        self.path = pathlib.Path(point, f"stepscope_lifecycle_{os.getpid()}")
        self.path.mkdir()

    def limit(self, name, value):
        (self.path / (V1_FILES.get(name, name) if self.is_v1 else name)).write_text(str(value))

    def command(self, *command):
        """`command`, run inside."""
        return ("sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', self.path, *command)

    def killed(self):
        """Processes the kernel killed in it for want of memory."""
        text = (self.path / ("memory.oom_control" if self.is_v1 else "memory.events")).read_text()
        return int(re.search(r"^oom_kill (\d+)", text, re.M).group(1))

    def remove(self):
        self.path.rmdir()
