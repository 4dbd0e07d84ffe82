# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: the built programs, a daemon per test on its own data directory, gRPC by grpcurl-like JSON."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import pytest
from s3_server import S3Server

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("STEPSCOPE_BUILD_DIR", ROOT / "build"))
BIN = BUILD / "bin"
TORCH_PYTHON = os.environ.get("STEPSCOPE_TORCH_PYTHON", "")
FULL = os.environ.get("STEPSCOPE_FULL") == "1"


@pytest.fixture
def short_dir():
    """A directory whose path leaves room for a socket name (108 bytes)."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="ss-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


class Daemon:
    """One stepscoped on a private data directory."""

    def __init__(self, data_dir, *settings, env=None):
        self.data_dir = pathlib.Path(data_dir)
        self.settings = settings
        self.env = {**os.environ, **(env or {})}
        self.process = None
        self.program = BIN / "stepscoped"

    def start(self, prefix=(), fds=(), arguments=()):
        """`prefix` is a command that executes the rest of its arguments; it inherits `fds`."""
        command = [
            *prefix,
            self.program,
            "--private",
            "--data-dir",
            self.data_dir,
            "--port",
            "0",
            "--http-port",
            "0",
        ]
        for setting in self.settings:
            command += ["--set", setting]
        command += arguments
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.log = open(self.data_dir / "test.log", "ab")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env=self.env, pass_fds=fds)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"stepscoped ended with {self.process.returncode}: {self.log_text()}")
            facts = self.facts()
            if facts and facts["pid"] == self.process.pid:
                return self
            time.sleep(0.02)
        raise AssertionError(f"stepscoped did not serve: {self.log_text()}")

    def facts(self):
        try:
            return json.loads((self.data_dir / "daemon.json").read_text())
        except (OSError, ValueError):
            return None

    def log_text(self):
        return (self.data_dir / "test.log").read_text(errors="replace")[-4000:]

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(30)
        return self.process.returncode

    def kill(self):
        self.process.kill()
        self.process.wait(30)

    def health(self):
        """The status of /readyz."""
        try:
            return urllib.request.urlopen(f"http://{self.facts()['http']}/readyz", timeout=10).status
        except urllib.error.HTTPError as error:
            return error.code

    def agent_env(self):
        return {
            **os.environ,
            "STEPSCOPE_SOCKET": self.facts()["agent_socket"],
            "PYTHONPATH": f"{BUILD / 'python'}",
        }

    def call(self, method, **request):
        """Unary call with JSON in and out through grpcurl and the server's reflection."""
        answer = grpcurl(self.facts()["grpc"], method, request)
        return answer[0] if answer else {}


def grpcurl(address, method, request, extra=()):
    service, name = method.split("/") if "/" in method else ("QueryService", method)
    result = subprocess.run(
        [
            "grpcurl",
            "-plaintext",
            "-emit-defaults",
            *extra,
            "-d",
            json.dumps(request),
            address,
            f"stepscope.v1.{service}/{name}",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if result.returncode != 0:
        raise RpcError(result.stderr)
    decoder, answers, text = json.JSONDecoder(), [], result.stdout.strip()
    while text:
        value, end = decoder.raw_decode(text)
        answers.append(value)
        text = text[end:].lstrip()
    return answers


class RpcError(Exception):
    pass


@pytest.fixture
def daemon(short_dir):
    """A running daemon without upload."""
    started = Daemon(short_dir / "data").start()
    yield started
    started.stop()


@pytest.fixture
def make_daemon(short_dir):
    """make_daemon(*settings, name=..., env=...): daemons stopped at the end of the test."""
    made = []

    def make(*settings, name="data", env=None):
        made.append(Daemon(short_dir / name, *settings, env=env))
        return made[-1]

    yield make
    for one in made:
        if one.process:
            one.stop()


def stepscope(*arguments, env=None, data_dir=None, **kwargs):
    """The command line; returns the CompletedProcess."""
    command = [BIN / "stepscope", *(["--data-dir", data_dir] if data_dir else []), *arguments]
    return subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        timeout=kwargs.pop("timeout", 180),
        env={**os.environ, **(env or {})},
        check=False,
        **kwargs,
    )


def spans(daemon, job="last", table="span"):
    """All rows of a table as dicts of columns."""
    answer = daemon.call("GetSlices", job=job, table=table, limit=100000)
    assert not answer.get("cut"), "the test reads fewer than 100,000 rows"
    rows = []
    for row in answer.get("slices", []):
        fields = {
            f["name"]: f.get("text", f.get("real", int(f["integer"]) if "integer" in f else None))
            for f in row.get("fields", [])
        }
        rows.append(
            {
                "name": row["name"],
                "start_ns": int(row["start_ns"]),
                "dur_ns": int(row["dur_ns"]),
                "lane": row["lane"],
                **fields,
            }
        )
    return rows


@pytest.fixture
def s3(short_dir):
    server = S3Server(short_dir).start()
    yield server
    server.kill()


def wait_until(condition, seconds, what):
    """Returns the condition's value once it is true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"waited {seconds} s for {what}")
