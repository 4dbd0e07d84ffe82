# SPDX-License-Identifier: Apache-2.0
"""Builds the initramfs the guest boots: busybox, the built programs with the shared libraries ldd names, and guest_init.sh.

Programs keep the paths they have here, so that what a test was compiled to start is where it looks for it.
"""

import pathlib
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent


def shared_libraries(program):
    """Paths of the loader and of every library the program needs, as ldd resolves them here."""
    listed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    return {word for word in listed.split() if word.startswith("/")}


def place(source, root):
    target = root / pathlib.Path(source).relative_to("/")
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
        target.chmod(0o755)


def build(work, programs, variables):
    """Returns the archive; `variables` are what guest_init.sh reads."""
    root = work / "root"
    for program in programs:
        for path in {str(program), *shared_libraries(program)}:
            place(path, root)
    (root / "bin").mkdir(exist_ok=True)
    shutil.copy("/bin/busybox", root / "bin/busybox")
    (root / "init").write_text("#!/bin/busybox sh\n" + (HERE / "guest_init.sh").read_text())
    (root / "init").chmod(0o755)
    (root / "programs").write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
    names = "\n".join(str(path.relative_to(root)) for path in [root, *root.rglob("*")])
    archive = work / "initramfs"
    with open(archive, "wb") as out:
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=names.encode(), stdout=out, check=True)
    return archive
