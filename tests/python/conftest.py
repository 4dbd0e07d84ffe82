# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the tests of the Python package: the built package, and scripts run next to a receiver that keeps what they
recorded. STEPSCOPE_BUILD_DIR names the build tree (default: build/ of the repository)."""

import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from receiver import Receiver

REPOSITORY = Path(__file__).resolve().parents[2]


def pytest_configure(config):
    config.addinivalue_line("markers", "torch: needs an installed PyTorch")


# Scripts of tests marked "torch" run in the interpreter script/bootstrap --torch found, else in this one if it has PyTorch.
TORCH_PYTHON = os.environ.get("STEPSCOPE_TORCH_PYTHON") or (
    sys.executable if importlib.util.find_spec("torch") is not None else None
)


def pytest_collection_modifyitems(items):
    if TORCH_PYTHON:
        return
    for item in items:
        if "torch" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="no PyTorch: script/bootstrap --torch provides one"))


@pytest.fixture(scope="session")
def build_dir():
    return Path(os.environ.get("STEPSCOPE_BUILD_DIR", REPOSITORY / "build")).resolve()


@pytest.fixture(scope="session")
def python_dir(build_dir):
    assert (build_dir / "python" / "stepscope" / "_agent.abi3.so").exists(), (
        f"no extension in {build_dir}/python: build the target stepscope_python, or set STEPSCOPE_BUILD_DIR"
    )
    return build_dir / "python"


class Scripts:
    """Runs a Python script in a process of its own, in an empty folder, with the package importable."""

    def __init__(self, python_dir, folder, interpreter):
        self.python_dir = python_dir
        self.folder = folder
        self.interpreter = interpreter

    def run(self, source, *, path=None, socket=None, expect=0, python=None, arguments=()):
        script = self.folder / "script.py"
        script.write_text(textwrap.dedent(source))
        entries = [self.python_dir] if path is None else path
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, entries)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "STEPSCOPE_SOCKET": str(socket or self.folder / "nobody.sock"),
            "OMP_NUM_THREADS": "1",
        }
        done = subprocess.run(
            [python or self.interpreter, *arguments, str(script)],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == expect, done.stderr
        return done

    def record(self, source, **options):
        """Sessions of the script and its children, in order of their hello."""
        with Receiver() as receiver:
            done = self.run(source, socket=receiver.path, **options)
            sessions = receiver.sessions()
        assert sessions, f"nothing arrived at the socket; the script said: {done.stdout}{done.stderr}"
        return sessions

    def inject(self, source, **options):
        """record() as `stepscope run` starts the script: with the hook folder on the path, and nothing else."""
        return self.record(source, path=[self.python_dir / "inject"], **options)


@pytest.fixture
def scripts(request, python_dir, tmp_path):
    needs_torch = request.node.get_closest_marker("torch") is not None
    return Scripts(python_dir, tmp_path, TORCH_PYTHON if needs_torch else sys.executable)
