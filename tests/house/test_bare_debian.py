# SPDX-License-Identifier: Apache-2.0
"""script/bootstrap turns a bare Debian 12 into a workplace, proved in a root that debootstrap made a minute ago.

Only with --full: it needs root, mounts, and the package registries. The registries, proxies and certificates are those of
the machine: the environment goes along, and certificate files it names are copied into the root and renamed there.
"""

import os
import re
import resource
import subprocess
import time
from pathlib import Path

import pytest
from tree import ROOT

pytestmark = pytest.mark.full

APT_SOURCES = [Path("/etc/apt/sources.list"), Path("/etc/apt/sources.list.d/debian.sources")]
MOUNTS = [
    ("proc", "/proc", ["-t", "proc", "proc"]),
    ("dev", "/dev", ["--rbind", "/dev"]),
    ("sys", "/sys", ["--rbind", "/sys"]),
]


def debian_mirror():
    """The first Debian mirror this machine's apt is set to."""
    for path in APT_SOURCES:
        found = re.search(r"^(?:URIs:|deb)\s.*?(\w+://\S+)", path.read_text(), re.M) if path.exists() else None
        if found:
            return found.group(1)
    raise AssertionError(f"no mirror in {APT_SOURCES}")


@pytest.fixture
def bare_debian(tmp_path):
    root = tmp_path / "debian"
    subprocess.run(["debootstrap", "--variant=minbase", "bookworm", root, debian_mirror()], check=True)
    for path in APT_SOURCES:
        if path.exists():
            (root / path.relative_to("/")).write_text(path.read_text())
    (root / "etc/resolv.conf").write_text(Path("/etc/resolv.conf").read_text())
    (root / "etc/hosts").write_text(Path("/etc/hosts").read_text())
    mounted = []
    try:
        for name, _, how in MOUNTS:
            subprocess.run(["mount", *how, root / name], check=True)
            subprocess.run(["mount", "--make-rslave", root / name], check=True)
            mounted.append(root / name)
        yield root
    finally:
        for point in reversed(mounted):
            subprocess.run(["umount", "--recursive", "--lazy", point], check=True)


def environment_inside(root):
    """This machine's environment with certificate files moved along and nothing of its toolchains."""
    inside = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
    for name, value in os.environ.items():
        if re.search(r"proxy|^PIP_(?!FIND_LINKS)|^GO(PROXY|SUMDB|NOSUMDB|PRIVATE)$", name, re.I):
            inside[name] = value
        if re.search(r"CERT|CA_BUNDLE|CAINFO|CA_FILE", name) and Path(value).is_file():
            copy = root / "etc/machine-ca" / Path(value).name
            copy.parent.mkdir(exist_ok=True)
            copy.write_bytes(Path(value).read_bytes())
            inside[name] = "/" + str(copy.relative_to(root))
    return inside


def enter(root, *command):
    """Runs the command inside; returns its wall seconds and the CPU seconds of it and all its children."""
    begun, cpu_begun = time.monotonic(), children_cpu_s()
    subprocess.run(["chroot", root, *command], env=environment_inside(root), stdin=subprocess.DEVNULL, check=True)
    return time.monotonic() - begun, children_cpu_s() - cpu_begun


def children_cpu_s():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def test_bootstrap_from_nothing_and_again_from_ready(bare_debian):
    checkout = bare_debian / "src"
    checkout.mkdir()
    archive = subprocess.run(["git", "-C", ROOT, "archive", "HEAD"], check=True, stdout=subprocess.PIPE).stdout
    subprocess.run(["tar", "-x", "-C", checkout], input=archive, check=True)

    cold_s, cold_cpu_s = enter(bare_debian, "/src/script/bootstrap")
    warm_s, _ = enter(bare_debian, "/src/script/bootstrap")
    print(f"bare Debian 12: first bootstrap {cold_s:.0f} s ({cold_cpu_s:.0f} s of CPU), second {warm_s:.1f} s")
    assert cold_cpu_s < 900, "more work than two cores finish in ten minutes beside the downloads"
    assert warm_s < 10

    enter(
        bare_debian,
        "sh",
        "-c",
        ". /src/build/toolchain.env && $STEPSCOPE_GOBIN/versitygw --version && $STEPSCOPE_GOBIN/grpcurl --version",
    )
    enter(bare_debian, "/src/script/test", "--list")
    # Every header and library the build asks for is there.
    enter(
        bare_debian,
        "bash",
        "-c",
        "source /src/script/toolchain.sh && LoadToolchain && cd $ROOT && cmake --preset release --log-level=WARNING"
        " -DPython3_EXECUTABLE=$STEPSCOPE_VENV/bin/python",
    )
