# SPDX-License-Identifier: Apache-2.0
"""Whatever gRPC, protobuf, absl or nghttp2 a host has loaded, in whatever version: the agent calls none of it. A preloaded
library traps every such symbol, and the agent records and pushes as ever; programs that do use one of them die."""

import signal
import subprocess

import pytest
from e2e_fixtures import BUILD, spans, wait_until
from poison_library import build, exported_names

SPANS = 5000
THREADS = 2
FEWEST_SYMBOLS = 15_000  # Debian 12's libraries have more


@pytest.fixture(scope="module")
def poison(tmp_path_factory):
    library, count = build(tmp_path_factory.mktemp("poison"))
    assert count > FEWEST_SYMBOLS
    return library


def annotate(program, env, poison):
    """`steps` of the annotator under the poison."""
    return subprocess.run(
        [BUILD / "tests" / program, "steps", str(THREADS), str(SPANS), "50", "20000"],
        env={**env, "LD_PRELOAD": str(poison)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_poison_covers_each_library_and_the_agents_own():
    names = exported_names()
    assert all(names.values()), [pattern for pattern, found in names.items() if not found]
    assert "nghttp2_session_mem_recv" in names["libnghttp2.so"]
    assert "pb_decode" in names["libprotobuf-nanopb.a"]
    assert any("grpc" in name for name in names["libgrpc++.so"])


def test_the_agent_pushes_beside_a_poisoned_rpc_library(make_daemon, poison):
    daemon = make_daemon("sched.mode=off").start()
    ended = annotate("agent_annotator", daemon.agent_env(), poison)
    assert (ended.returncode, ended.stdout) == (0, "lost 0 flushed 1\n"), ended.stderr
    wait_until(lambda: len(spans(daemon)) == THREADS * SPANS, 20, "the spans")
    numbers = sorted(row["number"] for row in spans(daemon))
    assert numbers == sorted(list(range(SPANS)) * THREADS)


def test_an_agent_that_used_the_hosts_nghttp2_would_die(make_daemon, poison, short_dir):
    """The same program and the same agent sources, but for what keeps the agent's symbols to itself."""
    daemon = make_daemon("sched.mode=off").start()
    away = {**daemon.agent_env(), "STEPSCOPE_SOCKET": str(short_dir / "nobody.sock")}
    assert annotate("guest_exposed_annotator", away, poison).returncode == 0, (
        "without a daemon there is nothing to push"
    )
    assert annotate("guest_exposed_annotator", daemon.agent_env(), poison).returncode == -signal.SIGILL


@pytest.mark.parametrize(
    "library, call", [("nghttp2", "nghttp2_version"), ("grpc", "grpc_version_string"), ("cares", "ares_library_init")]
)
def test_a_program_that_uses_the_system_library_dies(library, call, poison, tmp_path):
    source, program = tmp_path / "user.c", tmp_path / "user"
    source.write_text(f"void* {call}(int); int main(void) {{ return {call}(0) == 0; }}\n")
    subprocess.run(["gcc", source, "-o", program, f"-l{library}"], check=True)
    assert subprocess.run([program]).returncode in (0, 1)
    assert subprocess.run([program], env={"LD_PRELOAD": str(poison)}).returncode == -signal.SIGILL
