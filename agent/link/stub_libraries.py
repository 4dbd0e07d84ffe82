#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes stand-ins of the C library to link the agent against, holding only symbol versions up to glibc 2.17.

A symbol that needs a newer glibc is then an error when the agent is linked, not when it is loaded on a user's older machine.
Usage: stub_libraries.py OUTPUT_FOLDER CC LIBRARY... where LIBRARY is the path of libc.so.6, libpthread.so.0 or libdl.so.2.
"""

import pathlib
import re
import subprocess
import sys

FLOOR = (2, 17)
DATA_SYMBOLS = {"environ", "__environ", "_environ"}


def version_tuple(version):
    match = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.(\d+))?", version)
    return tuple(int(part or 0) for part in match.groups()) if match else None


def newest_versions(library):
    """{symbol: version}: of each exported symbol the newest version at or below the floor."""
    listing = subprocess.run(
        ["readelf", "--dyn-syms", "--wide", library], check=True, capture_output=True, text=True
    ).stdout
    chosen = {}
    for line in listing.splitlines():
        fields = line.split()
        if len(fields) < 8 or fields[6] == "UND" or fields[4] not in ("GLOBAL", "WEAK"):
            continue
        symbol, _, version = fields[7].replace("@@", "@").partition("@")
        number = version_tuple(version)
        if number is None or number[:2] > FLOOR or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", symbol):
            continue
        if symbol not in chosen or number > version_tuple(chosen[symbol]):
            chosen[symbol] = version
    return chosen


def write_stub(folder, compiler, library):
    chosen = newest_versions(library)
    name = pathlib.Path(library).name
    assembly = [".text"]
    for symbol, version in sorted(chosen.items()):
        kind = "object" if symbol in DATA_SYMBOLS else "function"
        label = f"stub_{symbol}"
        assembly += [f".globl {label}", f".type {label}, %{kind}", f"{label}: .quad 0", f".size {label}, 8"]
        assembly.append(f".symver {label}, {symbol}@@@{version}")
    assembly.append('.section .note.GNU-stack,"",%progbits')
    versions = sorted(set(chosen.values()), key=version_tuple)
    script = "".join(f"{version} {{ }};\n" for version in versions)
    source, script_path = folder / f"{name}.s", folder / f"{name}.map"
    source.write_text("\n".join(assembly) + "\n")
    script_path.write_text(script)
    command = [
        compiler,
        "-shared",
        "-nostdlib",
        "-fuse-ld=bfd",
        f"-Wl,-soname,{name}",
        f"-Wl,--version-script={script_path}",
    ]
    subprocess.run([*command, "-o", str(folder / name), str(source)], check=True)


def main():
    folder, compiler, *libraries = sys.argv[1:]
    output = pathlib.Path(folder)
    output.mkdir(parents=True, exist_ok=True)
    for library in libraries:
        write_stub(output, compiler, library)


if __name__ == "__main__":
    main()
