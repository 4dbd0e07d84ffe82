# SPDX-License-Identifier: Apache-2.0
"""Bad input and missing rights: the target never notices; the caller gets the thing, the cause and the next step."""

import os
import shutil
import socket
import subprocess
import sys
import time

import pytest
from conftest import BIN, BUILD, ROOT, Daemon, RpcError, spans, stepscope, wait_until

PRINT_OK = [sys.executable, "-c", "import stepscope as ss\nwith ss.annotate('x'): pass\nprint('ok')"]


def run_target(env, *code):
    result = subprocess.run(
        [sys.executable, "-c", "\n".join(code)], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    return result.stdout


def test_no_socket(short_dir):
    env = {**os.environ, "STEPSCOPE_SOCKET": str(short_dir / "none.sock"), "PYTHONPATH": str(BUILD / "python")}
    out = run_target(env, "import stepscope as ss", "with ss.annotate('x'): pass", "print(ss.state())")
    assert "none.sock" in out


def test_read_only_data_dir_and_the_target_runs_all_the_same(short_dir):
    """As root nothing is read-only, so the directory lies on a file."""
    (short_dir / "file").write_text("")
    result = stepscope("run", "--", "echo", "ran", data_dir=short_dir / "file" / "data")
    assert result.returncode == 0
    assert result.stdout == "ran\n"
    assert "warning" in result.stderr and str(short_dir / "file") in result.stderr


def test_two_daemons_on_one_store(daemon):
    second = Daemon(daemon.data_dir)
    with pytest.raises(AssertionError, match="in use"):
        second.start()
    assert daemon.call("GetNode")["pid"] == daemon.process.pid


def test_garbage_on_the_agent_socket(daemon):
    path = daemon.facts()["agent_socket"]
    for payload in (b"", b"\0" * 7, b"GET / HTTP/1.1\r\n\r\n", os.urandom(104), os.urandom(100000)):
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(path)
            try:
                peer.sendall(payload)
            except OSError:
                pass
    run_target(daemon.agent_env(), "import stepscope as ss", "with ss.annotate('after_garbage'): pass")
    wait_until(
        lambda: [r for r in spans(daemon) if r["name"] == "after_garbage"], 10, "the span sent after the garbage"
    )


def test_huge_and_invalid_names(daemon):
    run_target(
        daemon.agent_env(),
        "import stepscope as ss",
        "with ss.annotate('m' * 1_000_000): pass",
        "with ss.annotate('bad \\udcff\\ud800 name'): pass",
        "with ss.annotate(''): pass",
        "with ss.annotate('nul\\0inside'): pass",
        "with ss.annotate('last'): pass",
    )
    rows = wait_until(lambda: [r for r in spans(daemon) if r["name"] == "last"] and spans(daemon), 10, "the last span")
    longest = max(rows, key=lambda r: len(r["name"]))
    assert 4000 < len(longest["name"].encode()) <= 4096
    assert any("bad" in r["name"] for r in rows)


def test_unbalanced_and_cross_thread_begin_and_end(daemon):
    run_target(
        daemon.agent_env(),
        "import stepscope as ss, threading",
        "t = ss.begin('token_across')",
        "threading.Thread(target=ss.end, args=(t,)).start()",
        "ss.end(12345)",
        "a = ss.begin('overlap_1'); b = ss.begin('overlap_2'); ss.end(a); ss.end(b); ss.end(b)",
        "import ctypes; lib = ctypes.CDLL('" + str(BUILD / "lib/libstepscope_agent.so") + "')",
        "lib.stepscope_end(); lib.stepscope_end()",
        "lib.stepscope_annotate_begin(b'never_ended')",
    )
    rows = wait_until(
        lambda: (r := spans(daemon)) and any(x["name"] == "never_ended" for x in r) and r, 15, "the span cut by exit"
    )
    names = [r["name"] for r in rows]
    assert names.count("token_across") == 1 and names.count("overlap") == 2
    assert next(r for r in rows if r["name"] == "never_ended")["flags"] & 4, "cut, not lost"


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "ünï", "x" * 300, "with space", "=;|$(id)"])
def test_job_names_with_path_characters(short_dir, name):
    data = short_dir / "data"
    out = short_dir / "out"
    out.mkdir()
    result = stepscope(
        "run",
        "--quiet",
        "--job",
        name,
        "--set",
        f"upload.url=file://{out}",
        "--set",
        "upload.jitter_ms=0",
        "--",
        "true",
        data_dir=data,
    )
    assert result.returncode == 0 and result.stderr == "", result.stderr
    files = [p for p in short_dir.rglob("*.json") if "_jobs" in str(p)]
    assert files and all(out in p.parents for p in files)


def test_unknown_config_key_names_the_nearest(short_dir):
    config = short_dir / "c.toml"
    config.write_text("[sched]\nring_byte = 1\n")
    result = subprocess.run(
        [BIN / "stepscoped", "--check-config", "--config", config], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1 and "sched.ring_bytes" in result.stderr


def test_wrong_secret_and_missing_bucket_keep_the_job(make_daemon, s3):
    for name, settings, env, word in (
        ("wrong", s3.settings(), {**s3.env, "AWS_SECRET_ACCESS_KEY": "wrong"}, "denied"),
        ("missing", s3.settings(bucket="nobucket"), s3.env, "bucket"),
    ):
        daemon = make_daemon(*settings, name=name, env=env).start()
        assert (
            stepscope(
                "run", "--quiet", "--wait-upload", "0", "--job", name, "--", "true", data_dir=daemon.data_dir
            ).returncode
            == 0
        )
        state = wait_until(
            lambda d=daemon: (s := d.call("ControlService/GetUpload", job="last"))["state"] == "failed" and s,
            60,
            "the failure",
        )
        assert word in state["reason"].lower(), state
        assert int(state["next_try_wall_ns"]) > time.time_ns(), "it is tried again"
        assert daemon.call("GetJob", job=name)["name"] == name


def test_without_rights_the_job_is_recorded_and_doctor_says_what_to_change(short_dir):
    """As nobody: no BPF. Spans are recorded all the same."""
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is missing")
    data = short_dir / "data"
    data.mkdir()
    os.chmod(short_dir, 0o755)
    os.chown(data, 65534, 65534)
    bundle = copy_bundle(short_dir / "bundle")
    drop = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    run = subprocess.run(
        [
            *drop,
            bundle / "bin/stepscope",
            "--data-dir",
            data,
            "run",
            "--job",
            "humble",
            "--",
            "/usr/bin/python3",
            "-c",
            f"import sys; sys.path.insert(0, '{bundle}/python')\nimport stepscope as ss\nwith ss.annotate('seen'): pass",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    doctor = subprocess.run(
        [*drop, bundle / "bin/stepscope", "--data-dir", data, "doctor"], capture_output=True, text=True, check=False
    )
    assert doctor.returncode == 1 and "sched" in doctor.stdout and "CAP_BPF" in doctor.stdout, doctor.stdout
    daemon = Daemon(data).start()
    try:
        assert any(r["name"] == "seen" for r in spans(daemon, "humble"))
    finally:
        daemon.stop()


def copy_bundle(target):
    for part in ("bin", "lib", "python"):
        shutil.copytree(BUILD / part, target / part, symlinks=True)
    return target


def test_the_tree_can_be_moved(short_dir):
    bundle = copy_bundle(short_dir / "moved")
    out = short_dir / "out"
    out.mkdir()
    data = short_dir / "data"
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
    run = subprocess.run(
        [
            bundle / "bin/stepscope",
            "--data-dir",
            data,
            "run",
            "--job",
            "moved",
            "--set",
            f"upload.url=file://{out}",
            "--set",
            "upload.jitter_ms=0",
            "--",
            sys.executable,
            "-c",
            "import stepscope as ss\nwith ss.annotate('hello'): pass",
        ],
        capture_output=True,
        text=True,
        env=env,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "done" in run.stderr, run.stderr
    assert list(out.rglob("span/**/*.parquet"))
    linked = subprocess.run(["ldd", bundle / "bin/stepscoped"], capture_output=True, text=True, check=True).stdout
    assert str(ROOT) not in linked


def test_methods_of_later_releases_say_so_by_name(daemon):
    for method in ("Search", "ControlService/Attach"):
        with pytest.raises(RpcError, match="Unimplemented"):
            daemon.call(method)


def test_a_command_that_cannot_start_and_one_killed_by_a_signal(short_dir):
    data = short_dir / "data"
    assert stepscope("run", "--quiet", "--", "/no/such/program", data_dir=data).returncode == 127
    assert stepscope("run", "--quiet", "--", "sh", "-c", "kill -9 $$", data_dir=data).returncode == 137


def test_a_number_of_zero_is_a_number(daemon):
    run_target(daemon.agent_env(), "import stepscope as ss", "ss.mark('epoch_0')", "ss.mark('plain')")
    rows = wait_until(lambda: (r := spans(daemon)) and len(r) == 2 and r, 10, "both marks")
    assert {(r["name"], r["has_number"], r["number"]) for r in rows} == {("epoch", 1, 0), ("plain", 0, 0)}
