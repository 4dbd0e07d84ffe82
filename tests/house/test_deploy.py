# SPDX-License-Identifier: Apache-2.0
"""Deployment files: systemd accepts the unit and finds it tight; the Containerfile is pinned and ends as no special user; the
Kubernetes manifests fit its schemas and grant no more than the unit."""

import re
import subprocess

import kubernetes_validate
import pytest
import yaml
from tree import ROOT, all_files, text_of

UNIT = "deploy/systemd/stepscoped.service"
CONTAINERFILE = "deploy/container/Containerfile"
RIGHTS = ["BPF", "PERFMON", "SYS_PTRACE", "DAC_READ_SEARCH"]
KUBERNETES = "1.29"  # the oldest with native sidecars
MANIFESTS = [name for name in all_files() if name.startswith("deploy/kubernetes/")]
MOST_EXPOSURE = 3.1  # systemd's own score, stated in docs/operations.md


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


def test_systemd_finds_the_unit_as_tight_as_the_page_says(installed_unit, capsys):
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", installed_unit]
    result = subprocess.run(command, capture_output=True, text=True)
    score = float(re.search(r"Overall exposure level for stepscoped.service: ([\d.]+)", result.stdout).group(1))
    with capsys.disabled():
        print(f"\n  systemd-analyze security --offline=true: {score}")
    assert score <= MOST_EXPOSURE, result.stdout
    assert f"gives **{MOST_EXPOSURE}**" in text_of("docs/operations.md")


def test_the_unit_keeps_exactly_the_rights_of_the_kernel_side():
    bound = re.search(r"^CapabilityBoundingSet=(.*)$", text_of(UNIT), re.M).group(1).split()
    assert bound == [f"CAP_{name}" for name in RIGHTS]


def test_the_unit_can_notify_and_keep_rings_over_a_restart():
    text = text_of(UNIT)
    for line in ("Type=notify", "NotifyAccess=main", "RuntimeDirectory=stepscope", "StateDirectory=stepscope"):
        assert f"\n{line}\n" in text
    assert re.search(r"^WatchdogSec=\d+s$", text, re.M)
    assert "\nStartLimitIntervalSec=0\n" in text, "a unit that gives up lets go of the rings"
    kept = int(re.search(r"^FileDescriptorStoreMax=(\d+)$", text, re.M).group(1))
    most = int(re.search(r"max_sessions = (\d+);", text_of("daemon/ingest/ingest.h")).group(1))
    assert kept > most, "the ring file of each session, and the listening socket"
    assert kept * (len("0123456789012345678901") + 1) < 128 << 10, "LISTEN_FDNAMES is one variable"


def test_hadolint_accepts_the_containerfile():
    result = subprocess.run(["hadolint", CONTAINERFILE], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


def test_base_images_are_pinned_to_a_day():
    bases = re.findall(r"^FROM (\S+)", text_of(CONTAINERFILE), re.M)
    assert bases == ["${BASE}", "${TREE}", "${BASE}"]
    assert re.search(r"^ARG BASE=\S+:bookworm-20\d{6}-slim$", text_of(CONTAINERFILE), re.M)


def test_the_image_runs_without_root():
    assert re.findall(r"^USER (\S+)", text_of(CONTAINERFILE), re.M)[-1] == "65532:65532"


def documents(name):
    return list(yaml.safe_load_all(text_of(name)))


def pod_of(document):
    return document["spec"]["template"]["spec"] if document["kind"] == "DaemonSet" else document["spec"]


def daemon_of(pod):
    (container,) = [c for c in pod.get("initContainers", []) + pod["containers"] if c["name"] == "stepscoped"]
    return container


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_manifest_fits_the_schema(name):
    for document in documents(name):
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


def test_a_manifest_with_a_misspelt_key_is_refused():
    (document,) = documents("deploy/kubernetes/sidecar.yaml")
    pod_of(document)["shareProcesNamespace"] = True
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_manifest_grants_no_more_than_the_unit(name):
    for document in documents(name):
        pod = pod_of(document)
        context = daemon_of(pod)["securityContext"]
        assert context["capabilities"]["drop"] == ["ALL"]
        assert set(context["capabilities"]["add"]) <= set(RIGHTS)
        assert context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]
        assert "privileged" not in context and context["seccompProfile"] == {"type": "RuntimeDefault"}


@pytest.mark.parametrize("name", MANIFESTS)
def test_what_the_manifest_mounts_is_where_the_daemon_looks(name):
    settings = text_of("deploy/stepscoped.toml")
    for document in documents(name):
        pod = pod_of(document)
        container = daemon_of(pod)
        mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounts == {"/run/stepscope", "/var/lib/stepscope"}
        assert 'socket = "/run/stepscope/agent.sock"' in settings and 'path = "/var/lib/stepscope"' in settings
        volumes = {volume["name"] for volume in pod["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            how = container[probe]
            path = how["httpGet"]["path"] if "httpGet" in how else how["exec"]["command"][-1]
            assert path == ("/healthz" if probe == "livenessProbe" else "/readyz")


def test_the_sidecar_is_a_native_one_in_the_pods_own_process_namespace():
    (document,) = documents("deploy/kubernetes/sidecar.yaml")
    pod = pod_of(document)
    assert pod["shareProcessNamespace"] is True and "hostPID" not in pod
    assert daemon_of(pod)["restartPolicy"] == "Always" and daemon_of(pod) in pod["initContainers"]
