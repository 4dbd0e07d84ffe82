# SPDX-License-Identifier: Apache-2.0
"""The agent beside the libraries of real jobs, loaded before and after it: both work, the process ends well, every annotation is
stored."""

import os
import pathlib
import subprocess
import sys

import pytest
from e2e_fixtures import TORCH_PYTHON, Daemon, spans, wait_until

WORK = pathlib.Path(__file__).parent / "library_work.py"
WHEELS_PYTHON = os.environ.get("STEPSCOPE_WHEELS_PYTHON", "")
GROUPS = [
    (sys.executable, [], ["numpy", "pyarrow", "grpcio", "duckdb", "protobuf"]),
    (TORCH_PYTHON, [], ["torch"]),
    (
        WHEELS_PYTHON,
        [pytest.mark.full],
        [
            "tensorflow",
            "ray",
            "jax",
            "onnxruntime",
            "opencv",
            "xgboost",
            "lightgbm",
            "scikit-learn",
            "pandas",
        ],
    ),
]
LIBRARIES = [
    pytest.param(python, library, id=library, marks=marks)
    for python, marks, libraries in GROUPS
    for library in libraries
]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    started = Daemon(tmp_path_factory.mktemp("d") / "data", "sched.mode=off").start()
    yield started
    started.stop()


@pytest.mark.parametrize("order", ["agent_first", "library_first"])
@pytest.mark.parametrize("python, library", LIBRARIES)
def test_works_beside_the_agent(python, library, order, daemon):
    assert python, f"no interpreter with {library}: script/bootstrap --torch, or --full, installs one"
    env = {**daemon.agent_env(), "OMP_NUM_THREADS": "2", "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [python, WORK, library, order]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    wanted = [f"{when} {library} {order}" for when in ("before", "work", "work", "after")]
    wait_until(lambda: [row["name"] for row in spans(daemon) if row["name"] in wanted] == wanted, 10, "the spans")
