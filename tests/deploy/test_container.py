# SPDX-License-Identifier: Apache-2.0
"""The image of deploy/container/Containerfile: built here from Debian's archive and this build tree, run by podman and runc with
the rights docs/operations.md names, recording processes outside of it.

No image registry is asked: the base is what debootstrap makes. Only with --full: it needs root and Debian's archive.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from conftest import BUILD, ROOT, Daemon, spans, wait_until

sys.path.insert(0, str(ROOT / "tests/house"))
from test_bare_debian import debian_mirror  # noqa: E402

pytestmark = pytest.mark.full

RIGHTS = "BPF,PERFMON,SYS_PTRACE,DAC_READ_SEARCH"
ANNOTATOR = ROOT / "tests/e2e/annotator.py"
PAGE = (ROOT / "docs/operations.md").read_text()
# podman asks for its own limits, which a machine without CAP_SYS_RESOURCE cannot give.
LIMITS = ("--ulimit", "nofile=16384:16384", "--ulimit", "nproc=4096:4096")


@pytest.fixture(scope="module")
def podman(tmp_path_factory):
    """podman(*arguments): a storage of its own, nothing of the machine's containers."""
    folder = tmp_path_factory.mktemp("podman")
    options = ["--root", folder / "root", "--runroot", folder / "run", "--tmpdir", folder / "tmp"]
    options += [
        "--storage-driver",
        "overlay",
        "--runtime",
        "runc",
        "--cgroup-manager",
        "cgroupfs",
        "--events-backend",
        "file",
    ]

    def call(*arguments, check=True, **kwargs):
        command = ["podman", *map(str, options), *map(str, arguments)]
        result = subprocess.run(command, capture_output=True, text="stdin" not in kwargs, **kwargs)
        assert not check or result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
        return result

    yield call
    call("rm", "--all", "--force", "--time", "5", check=False)
    call("unmount", "--all", "--force", check=False)
    subprocess.run(["umount", folder / "root/overlay"], check=False, capture_output=True)


def import_image(podman, name, *tar):
    """An image of what this tar command writes."""
    with subprocess.Popen(["tar", "-c", *map(str, tar)], stdout=subprocess.PIPE) as archive:
        podman("import", "-", name, stdin=archive.stdout)
    assert archive.returncode == 0


@pytest.fixture(scope="module")
def image(podman, tmp_path_factory):
    root = tmp_path_factory.mktemp("debian") / "root"
    subprocess.run(
        ["debootstrap", "--variant=minbase", "bookworm", root, debian_mirror()], check=True, capture_output=True
    )
    import_image(podman, "stepscope-base", "-C", root, ".")
    built = [folder.relative_to(BUILD.parent) for folder in (BUILD / "bin", BUILD / "lib", BUILD / "python")]
    import_image(podman, "stepscope-tree", "-C", BUILD.parent, f"--transform=s,^{BUILD.name},src/build,", *built)
    podman(
        *(
            "build",
            "--format",
            "docker",
            "--network",
            "host",
            "--file",
            ROOT / "deploy/container/Containerfile",
            "--tag",
            "stepscope",
        ),
        *("--build-arg", "BASE=localhost/stepscope-base", "--build-arg", "TREE=localhost/stepscope-tree", ROOT),
    )
    return "localhost/stepscope"


class ContainerDaemon(Daemon):
    """The daemon in a container, its folders on the host."""

    def __init__(self, podman, image, folder):
        super().__init__(folder / "store")
        self.podman, self.image, self.folder = podman, image, folder
        self.name = "stepscoped"

    def start(self):
        for name in ("run", "store"):
            (self.folder / name).mkdir(exist_ok=True)
        profile = re.search(r"^jq .* >seccomp.json$", PAGE, re.M).group()
        subprocess.run(profile, shell=True, cwd=self.folder, check=True)
        self.podman(
            *("run", "--detach", "--name", self.name, "--user", "0", "--pid", "host", "--network", "host"),
            *(
                "--cap-drop",
                "ALL",
                "--cap-add",
                RIGHTS,
                "--read-only",
                "--security-opt",
                f"seccomp={self.folder}/seccomp.json",
            ),
            *LIMITS,
            *("--volume", f"{self.folder}/run:/run/stepscope", "--volume", f"{self.folder}/store:/var/lib/stepscope"),
            self.image,
        )
        wait_until(self.facts, 30, "the daemon to serve")
        return self

    def inspect(self, field):
        return self.podman("inspect", "--format", f"{{{{{field}}}}}", self.name).stdout.strip()

    def log_text(self):
        result = self.podman("logs", self.name)
        return result.stdout + result.stderr

    def agent_env(self):
        return {**super().agent_env(), "STEPSCOPE_SOCKET": str(self.folder / "run/agent.sock")}


@pytest.fixture(scope="module")
def daemon(podman, image, tmp_path_factory):
    started = ContainerDaemon(podman, image, tmp_path_factory.mktemp("c")).start()
    yield started
    podman("rm", "--force", started.name, check=False)


def test_it_has_the_rights_the_page_names_and_no_others(daemon):
    status = pathlib.Path(f"/proc/{daemon.inspect('.State.Pid')}/status").read_text()
    effective = int(re.search(r"^CapEff:\s*(\w+)", status, re.M).group(1), 16)
    bits = {"DAC_READ_SEARCH": 2, "SYS_PTRACE": 19, "PERFMON": 38, "BPF": 39}
    assert effective & ~sum(1 << bits[name] for name in RIGHTS.split(",")) == 0
    assert daemon.inspect(".HostConfig.ReadonlyRootfs") == "true"
    assert daemon.inspect(".OCIRuntime") == "runc"
    assert f"--cap-drop ALL --cap-add {RIGHTS}" in PAGE


def test_a_process_outside_is_recorded_with_its_turns(daemon, capsys):
    env = {**daemon.agent_env(), "STEPSCOPE_JOB": "outside"}
    subprocess.run([sys.executable, ANNOTATOR, "0", "200", "0.002"], env=env, check=True, stdout=subprocess.DEVNULL)
    wait_until(lambda: len(spans(daemon, "outside")) >= 200, 15, "its spans")
    assert sorted(row["number"] for row in spans(daemon, "outside")) == list(range(200))
    turns = wait_until(lambda: spans(daemon, "outside", table="sched_slice"), 15, "its turns on CPUs")
    (sched,) = [c for c in daemon.call("GetNode")["collectors"] if c["name"] == "sched"]
    with capsys.disabled():
        print(f"\n  in a container: scheduling level {sched['level']}, {len(turns)} turns of 200 spans")
    assert sched["level"] == "full", sched


def test_a_process_in_another_container_is_recorded_as_a_tenant_of_its_own(daemon, podman):
    podman(
        *(
            "run",
            "--rm",
            "--network",
            "none",
            "--read-only",
            "--cap-drop",
            "ALL",
            *LIMITS,
            "--env",
            "STEPSCOPE_JOB=inside",
        ),
        *("--volume", f"{daemon.folder}/run:/run/stepscope", "--volume", f"{BUILD / 'tests'}:/programs:ro"),
        *("--env", "LD_LIBRARY_PATH=/opt/stepscope/lib", "--entrypoint", "/programs/agent_annotator", daemon.image),
        *("steps", "2", "100", "0", "2000"),
    )
    job = wait_until(lambda: [j for j in daemon.call("ListJobs")["jobs"] if "inside" in j["job"]], 15, "its job")[0]
    assert job["tenant"] != "host"
    assert len(spans(daemon, job["job"])) == 200


def test_health_is_asked_inside_and_outside(daemon, podman):
    assert daemon.health() == 200
    assert podman("exec", daemon.name, "stepscope-probe", "/readyz", check=False).returncode == 0
    assert podman("exec", daemon.name, "stepscope-probe", "/nothing", check=False).returncode == 1
    answer = podman("exec", daemon.name, "stepscope", "jobs", "--json")
    assert json.loads(answer.stdout)


def test_a_stop_is_clean(daemon, podman):
    assert "error" not in daemon.log_text()
    podman("stop", "--time", "20", daemon.name)
    assert daemon.inspect(".State.ExitCode") == "0"
    assert daemon.facts() is None, "daemon.json is gone"
    assert os.listdir(daemon.folder / "run") == []
