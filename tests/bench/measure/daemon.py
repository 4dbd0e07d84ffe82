# SPDX-License-Identifier: Apache-2.0
"""A daemon of its own for one measurement, with what it costs and what it has stored."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from measure.machine import BIN, BUILD, ROOT, cpu_seconds, status_mb

# Sources that record on their own: off where a benchmark counts the daemon's CPU per row of an agent.
AGENTS_ONLY = ["sched.mode=off", "counters.enabled=false", "host.enabled=false"]


class Daemon:
    """`prefix` is a command that executes the rest of its arguments."""

    def __init__(self, data_dir, *settings, prefix=()):
        self.data_dir = pathlib.Path(data_dir)
        self.data_dir.mkdir(parents=True, exist_ok=True)
        words = [
            *prefix,
            BIN / "stepscoped",
            "--private",
            "--data-dir",
            self.data_dir,
            "--port",
            "0",
            "--http-port",
            "0",
        ]
        for setting in settings:
            words += ["--set", setting]
        self.command = list(map(str, words))

    def __enter__(self):
        self.log = open(self.data_dir / "bench.log", "ab")
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 60
        while self.facts().get("pid") != self.process.pid:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"stepscoped does not serve: {(self.data_dir / 'bench.log').read_text()[-2000:]}")
            time.sleep(0.02)
        return self

    def __exit__(self, *error):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()

    def facts(self):
        try:
            return json.loads((self.data_dir / "daemon.json").read_text())
        except (OSError, ValueError):
            return {}

    @property
    def pid(self):
        return self.process.pid

    def cpu_s(self):
        return cpu_seconds(self.pid)

    def rss_mb(self):
        return status_mb(self.pid, "VmRSS")

    def agent_environment(self, **more):
        return {
            **os.environ,
            "STEPSCOPE_SOCKET": self.facts()["agent_socket"],
            "PYTHONPATH": str(BUILD / "python"),
            **more,
        }

    def cli(self, *words):
        command = [BIN / "stepscope", "--data-dir", self.data_dir, *words]
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout

    def report(self, job):
        return json.loads(self.cli("report", job, "--format", "json"))


@contextlib.contextmanager
def folder():
    """A short path in memory: sockets fit, the disk's speed does not matter."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="ssb-", dir="/dev/shm"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


class Rpc:
    """The services of a daemon over gRPC, with messages made from proto/ in `work`."""

    def __init__(self, address, work):
        import grpc
        from grpc_tools import protoc

        out = pathlib.Path(work) / "proto"
        out.mkdir(exist_ok=True)
        sources = [ROOT / "proto" / "stepscope" / "v1" / f"{name}.proto" for name in ("types", "query", "control")]
        outputs = [f"--python_out={out}", f"--grpc_python_out={out}"]
        if protoc.main(["protoc", f"-I{ROOT / 'proto'}", *outputs, *map(str, sources)]) != 0:
            raise RuntimeError("protoc failed")
        sys.path.insert(0, str(out))
        from stepscope.v1 import control_pb2, control_pb2_grpc, query_pb2, query_pb2_grpc

        self.messages, self.orders = query_pb2, control_pb2
        self.channel = grpc.insecure_channel(address)
        self.query = query_pb2_grpc.QueryServiceStub(self.channel)
        self.control = control_pb2_grpc.ControlServiceStub(self.channel)
