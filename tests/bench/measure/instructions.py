# SPDX-License-Identifier: Apache-2.0
"""Instructions counted by valgrind: the same on a busy machine, unlike times."""

import re
import subprocess


def count(command, functions, env=None):
    """(instructions inside these functions and what they call, what the program printed). No one may call another of them."""
    toggles = [f"--toggle-collect={function}" for function in functions]
    result = subprocess.run(
        ["valgrind", "--tool=callgrind", *toggles, "--callgrind-out-file=/dev/null", *map(str, command)],
        capture_output=True,
        text=True,
        env=env,
        check=False,
    )
    if result.returncode != 0:
        raise RuntimeError(result.stderr)
    return int(re.search(r"Collected : (\d+)", result.stderr).group(1)), result.stdout
