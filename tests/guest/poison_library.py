# SPDX-License-Identifier: Apache-2.0
"""A shared library that exports every symbol of the RPC libraries a host may bring along, each a trap instruction. Preloaded,
it comes before every other library, so a call that goes to such a symbol by name ends the process with SIGILL."""

import functools
import glob
import platform
import re
import subprocess

LIBRARIES = (
    "libgrpc++.so",
    "libgrpc.so",
    "libgpr.so",
    "libprotobuf.so",
    "libprotobuf-lite.so",
    "libabsl_*.so",
    "libre2.so",
    "libcares.so",
    "libnghttp2.so",
    "libprotobuf-nanopb.a",
)
TRAP = {"x86_64": "ud2", "aarch64": "udf #0"}
OF_THE_LINKER = {"_init", "_fini", "_edata", "_end", "__bss_start", "_start", "main"}


def library_folder():
    return f"/usr/lib/{platform.machine()}-linux-gnu"


@functools.lru_cache
def exported_names():
    """{library pattern: its symbols}; every pattern has at least one library."""
    names = {}
    for pattern in LIBRARIES:
        files = glob.glob(f"{library_folder()}/{pattern}")
        assert files, f"no {pattern} in {library_folder()}: script/bootstrap installs it"
        names[pattern] = set()
        for file in files:
            table = ["-g"] if file.endswith(".a") else ["-D"]
            listing = subprocess.run(
                ["nm", *table, "--defined-only", file], check=True, capture_output=True, text=True
            ).stdout
            found = re.findall(r"^[0-9a-f]+ [A-Za-z] (\S+)$", listing, re.MULTILINE)
            names[pattern] |= {name.partition("@")[0] for name in found}
    return names


def build(folder):
    """Its path and how many symbols it exports."""
    names = sorted(set().union(*exported_names().values()) - OF_THE_LINKER)
    lines = [".text"]
    for name in names:
        lines += [f'.globl "{name}"', f'.type "{name}", %function', f'"{name}":']
    lines += [TRAP[platform.machine()], '.section .note.GNU-stack,"",%progbits']
    source, library = folder / "poison.s", folder / "poison.so"
    source.write_text("\n".join(lines) + "\n")
    subprocess.run(["gcc", "-shared", "-nostdlib", source, "-o", library], check=True)
    return library, len(names)
