# SPDX-License-Identifier: Apache-2.0
"""Debian 12's own kernel, 6.1, runs our programs: it is booted under qemu and runs the live scheduling tests and one job.

Only with --full. The kernel is the .deb that this machine's apt names; nothing of it is installed. The guest's console is
kept beside the results, so that a refused program can be read there with the verifier's words.
"""

import os
import pathlib
import re
import subprocess

import initramfs
import pytest

pytestmark = pytest.mark.full

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("STEPSCOPE_BUILD_DIR", ROOT / "build"))
LIVE_TEST = BUILD / "tests" / "collector_sched_live_test"
STEPSCOPE = BUILD / "bin" / "stepscope"
PROGRAMS = [LIVE_TEST, BUILD / "tests" / "sched_workload", STEPSCOPE, BUILD / "bin" / "stepscoped"]
# Two minutes of an idle machine; emulation takes its time on a busy one.
GUEST_SECONDS = 1200


def debian_kernel(work):
    """The vmlinuz of the kernel package that linux-image-cloud-amd64 stands for."""
    named = subprocess.run(
        ["apt-cache", "depends", "linux-image-cloud-amd64"], check=True, capture_output=True, text=True
    ).stdout
    package = re.search(r"linux-image-6\.1\.\S+-cloud-amd64", named)
    assert package, f"apt knows no 6.1 cloud kernel: {named}"
    subprocess.run(["apt-get", "download", "-q", package.group()], cwd=work, check=True)
    (archive,) = work.glob("linux-image-*.deb")
    subprocess.run(["dpkg-deb", "-x", archive, work / "kernel"], check=True)
    (image,) = (work / "kernel" / "boot").glob("vmlinuz-*")
    return image


@pytest.fixture(scope="module")
def console(tmp_path_factory):
    """What the guest said until it powered off."""
    work = tmp_path_factory.mktemp("guest")
    archive = initramfs.build(work, PROGRAMS, {"LIVE_TEST": LIVE_TEST, "STEPSCOPE": STEPSCOPE})
    # Emulated even where there is a /dev/kvm: one inside a virtual machine may start a guest that never boots.
    # One host thread for both CPUs: with one each, a CPU can execute the breakpoint of a code patch for ever (attaching and
    # detaching patches the tracepoints' call sites), seen as a soft lockup in exc_int3.
    command = ["qemu-system-x86_64", "-accel", "tcg,thread=single", "-cpu", "max", "-smp", "2", "-m", "4G"]
    command += ["-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot"]
    command += ["-kernel", debian_kernel(work), "-initrd", archive, "-append", "console=ttyS0 loglevel=7 panic=-1"]
    log = pathlib.Path(os.environ.get("SUITE_RESULTS", work)) / "console.log"
    with open(log, "wb") as out:
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=GUEST_SECONDS, check=True)
    text = log.read_text(errors="replace").replace("\r", "")
    print(text)
    assert "\nguest done\n" in text, f"the guest ended early; its console is {log}"
    return text


@pytest.fixture(scope="module")
def cases(console):
    return dict(re.findall(r"^case (\S+) (.*)$", console, re.M))


def live_tests():
    """Every live test as Suite.Name, from the binary itself."""
    listed = subprocess.run([LIVE_TEST, "--gtest_list_tests"], check=True, capture_output=True, text=True).stdout
    names, suite = set(), ""
    for line in listed.splitlines():
        if line.startswith("  "):
            names.add(suite + line.strip())
        elif line.endswith("."):
            suite = line
    return names


def test_the_guest_runs_the_floor(console):
    assert re.search(r"^kernel 6\.1\.", console, re.M)


def test_every_live_test_passes_there(cases):
    assert {name: cases.get(name, "never ran") for name in live_tests()} == dict.fromkeys(live_tests(), "passed")


def test_doctor_finds_nothing_missing_there(cases):
    assert cases["job.doctor"] == "passed"


def test_a_job_is_recorded_there_without_loss(cases):
    assert cases["job.recorded"] == "passed"
