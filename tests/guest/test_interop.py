# SPDX-License-Identifier: Apache-2.0
"""The agent's own gRPC client against three servers that are not ours: gRPC C++, grpc-python and grpc-js. The bytes that arrive
are those in the ring file, acknowledgements and statuses are understood, and a server that refuses or sends away is a named
state."""

import os
import pathlib
import subprocess
import sys
import threading

import pytest
from e2e_fixtures import BUILD, ROOT, wait_until
from hello_relay import NONCE, HelloRelay

HERE = pathlib.Path(__file__).parent
GRPC_JS = os.environ.get("STEPSCOPE_GRPC_JS", "")
ANOTHER_NONCE = bytes(16)
RING_BYTES = 8 << 20  # more than a test records
STATES = {
    "PERMISSION_DENIED": "refused: the daemon denies this agent its stream",
    "UNIMPLEMENTED": "refused: the daemon has no push service that this agent knows, versions differ",
    "RESOURCE_EXHAUSTED": "waiting: the daemon has no room for this stream",
    "UNAVAILABLE": "recording, the daemon is stopping: records wait in the ring",
    "INTERNAL": "recording, the daemon ended the stream: records wait in the ring",
}
SERVERS = ["cpp", "python", pytest.param("js", marks=pytest.mark.full)]


@pytest.fixture(scope="module")
def python_stubs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stubs")
    files = ["--python_out", folder, "--grpc_python_out", folder, "stepscope/v1/agent.proto"]
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I", ROOT / "proto", *files]
    subprocess.run(list(map(str, command)), check=True)
    return folder


class Wire:
    """A relay with one server behind it at a time, and a job that pushes through both."""

    def __init__(self, kind, folder, stubs):
        self.commands = {
            "cpp": [BUILD / "tests/guest_cpp_server"],
            "python": [sys.executable, HERE / "python_server.py"],
            "recorded": [sys.executable, HERE / "recorded_server.py"],
            "js": [f"{GRPC_JS}/node", HERE / "js_server.js"],
        }
        assert kind != "js" or GRPC_JS, "no grpc-js: script/bootstrap --full installs one"
        self.kind = kind
        self.env = {
            **os.environ,
            "PYTHONPATH": str(stubs),
            "NODE_PATH": f"{GRPC_JS}/node_modules",
            "STEPSCOPE_PROTO": str(ROOT / "proto"),
        }
        self.folder = folder / "stored"
        self.folder.mkdir()
        self.socket = folder / "agent.sock"
        self.relay = HelloRelay(self.socket, self.folder)
        self.server = self.job = None
        self.said = []

    def serve(self, nonce=NONCE, max_age_ms=0, refusals=()):
        self.stop_server()
        command = [*self.commands[self.kind], self.folder, nonce.hex(), max_age_ms, *refusals]
        self.server = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True, env=self.env)
        self.relay.port = int(self.server.stdout.readline())

    def stop_server(self):
        if self.server:
            self.relay.port = None
            self.server.kill()
            self.server.wait()

    def annotate(self, spans, burst, pause):
        env = {
            **os.environ,
            "PYTHONPATH": str(BUILD / "python"),
            "STEPSCOPE_SOCKET": str(self.socket),
            "STEPSCOPE_RING_BYTES": str(RING_BYTES),
        }
        self.job = subprocess.Popen(
            [sys.executable, HERE / "interop_job.py", str(spans), str(burst), str(pause)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        self._reader = threading.Thread(target=lambda: self.said.extend(map(str.strip, self.job.stdout)))
        self._reader.start()

    def wait_for_state(self, beginning):
        wait_until(lambda: any(line.startswith(beginning) for line in list(self.said)), 30, f"the state {beginning!r}")

    def finish(self):
        self.job.stdin.close()
        assert self.job.wait(60) == 0
        self._reader.join()
        assert self.said[-1] == "flushed True lost 0", self.said

    def assert_the_servers_bytes_are_the_rings(self):
        rings = self.relay.rings()
        assert len(rings) >= 2, "the sender's and a thread's"
        for (ring, generation), recorded in rings.items():
            stored = (self.folder / f"{ring}-{generation}").read_bytes()
            if ring == 0:  # the sender's own readings of the clock go on to the end
                recorded = recorded[: len(stored)]
            assert stored == recorded, f"ring {ring}: {len(stored)} bytes stored, {len(recorded)} recorded"
        return sum(map(len, rings.values()))

    def end(self):
        if self.job and self.job.poll() is None:
            self.job.kill()
            self.job.wait()
        self.stop_server()


@pytest.fixture
def make_wire(short_dir, python_stubs):
    made = []

    def make(kind):
        wire = Wire(kind, short_dir, python_stubs)
        wire.relay.__enter__()
        made.append(wire)
        return wire

    yield make
    for wire in made:
        wire.end()
        wire.relay.__exit__()


@pytest.mark.parametrize("kind", SERVERS)
def test_the_stream_arrives_as_it_lies_in_the_ring(kind, make_wire, capsys):
    wire = make_wire(kind)
    wire.serve()
    wire.annotate(spans=60_000, burst=6_000, pause=0.05)
    wire.finish()
    assert wire.relay.hellos == 1
    size = wire.assert_the_servers_bytes_are_the_rings()
    assert size > 2_000_000, "many times the first flow-control window"
    with capsys.disabled():
        print(f"\n  {kind}: {size} bytes through one stream, byte for byte")


@pytest.mark.parametrize("kind", SERVERS)
def test_a_refusal_is_named_and_later_undone(kind, make_wire):
    """The status comes Huffman-coded from grpc-js."""
    wire = make_wire(kind)
    wire.serve(nonce=ANOTHER_NONCE)
    wire.annotate(spans=3_000, burst=10, pause=0.01)
    wire.wait_for_state(f"refused: the daemon denies this agent its stream; socket {wire.socket}")
    wait_until(lambda: wire.relay.hellos >= 3, 30, "the agent to try again")
    wire.serve()
    wire.finish()
    wire.assert_the_servers_bytes_are_the_rings()


def test_a_status_ends_a_stream_that_is_not_reset(make_wire):
    wire = make_wire("recorded")
    wire.serve()
    wire.annotate(spans=3_000, burst=10, pause=0.01)
    wire.wait_for_state(f"refused: the daemon denies this agent its stream; socket {wire.socket}")
    wait_until(lambda: wire.relay.hellos >= 2, 30, "the agent to try again")
    wire.kind = "python"
    wire.serve()
    wire.finish()
    wire.assert_the_servers_bytes_are_the_rings()


def test_each_status_is_a_state(make_wire):
    wire = make_wire("python")
    wire.serve(refusals=STATES)
    wire.annotate(spans=3_000, burst=10, pause=0.01)
    for state in STATES.values():
        wire.wait_for_state(f"{state}; socket {wire.socket}")
    wire.finish()
    wire.assert_the_servers_bytes_are_the_rings()


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_that_sends_away_gets_the_rest_on_a_new_connection(kind, make_wire):
    wire = make_wire(kind)
    wire.serve(max_age_ms=400)
    wire.annotate(spans=20_000, burst=100, pause=0.01)
    wire.wait_for_state(
        f"recording, the daemon sends its connections away: records wait in the ring; socket {wire.socket}"
    )
    wait_until(lambda: wire.relay.hellos >= 4, 30, "three times GOAWAY")
    wire.finish()
    wire.assert_the_servers_bytes_are_the_rings()


@pytest.mark.parametrize("kind", SERVERS)
def test_a_killed_server_is_a_daemon_away(kind, make_wire):
    wire = make_wire(kind)
    wire.serve()
    wire.annotate(spans=3_000, burst=10, pause=0.01)
    wire.wait_for_state("recording")
    wire.stop_server()
    wire.wait_for_state(f"recording, daemon away: records wait in the ring; socket {wire.socket}")
    wire.serve()
    wire.finish()
    wire.assert_the_servers_bytes_are_the_rings()
