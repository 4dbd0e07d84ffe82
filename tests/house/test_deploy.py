# SPDX-License-Identifier: Apache-2.0
"""Deployment files: systemd accepts the unit and finds it tight; the Containerfile is pinned and ends as no special user."""

import re
import subprocess

import pytest
from tree import ROOT, text_of

UNIT = "deploy/systemd/stepscoped.service"
CONTAINERFILE = "deploy/container/Containerfile"


@pytest.fixture
def installed_unit(tmp_path):
    """The unit as it would be installed, with a program that exists on this machine."""
    unit = tmp_path / "stepscoped.service"
    text, count = re.subn(r"^ExecStart=\S+", "ExecStart=/bin/true", text_of(UNIT), flags=re.M)
    assert count == 1
    unit.write_text(text)
    return unit


def test_systemd_accepts_the_unit(installed_unit):
    result = subprocess.run(["systemd-analyze", "verify", "--man=no", installed_unit], capture_output=True, text=True)
    said = [line for line in result.stderr.splitlines() if "stepscoped" in line]
    assert (result.returncode, said) == (0, [])


def test_systemd_finds_the_unit_tight(installed_unit):
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=35", "--no-pager", installed_unit]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-400:] + result.stderr


def test_the_unit_keeps_exactly_the_rights_of_the_kernel_side():
    bound = re.search(r"^CapabilityBoundingSet=(.*)$", text_of(UNIT), re.M).group(1).split()
    assert bound == ["CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"]


def test_the_unit_can_notify_and_keep_rings_over_a_restart():
    text = text_of(UNIT)
    for line in ("Type=notify", "NotifyAccess=main", "RuntimeDirectory=stepscope", "StateDirectory=stepscope"):
        assert f"\n{line}\n" in text
    assert re.search(r"^WatchdogSec=\d+s$", text, re.M)


def test_hadolint_accepts_the_containerfile():
    result = subprocess.run(["hadolint", CONTAINERFILE], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


def test_base_images_are_pinned_to_a_day():
    bases = re.findall(r"^FROM (\S+)", text_of(CONTAINERFILE), re.M)
    assert len(bases) == 2 and len(set(bases)) == 1
    assert all(re.search(r":bookworm-20\d{6}-slim$", base) for base in bases)


def test_the_image_runs_without_root():
    assert re.findall(r"^USER (\S+)", text_of(CONTAINERFILE), re.M)[-1] == "65532:65532"
