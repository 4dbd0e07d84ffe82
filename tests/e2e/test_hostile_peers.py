# SPDX-License-Identifier: Apache-2.0
"""A hostile local user and a running daemon: others are recorded as if it were not there; its memory and files stay bounded."""

import array
import fcntl
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import time

from conftest import FULL, RpcError, spans, stepscope, wait_until

HELLO = struct.Struct("<QII16siiIIQQQQI16sI")
RING_ALIGNMENT, RING_HEADER = 1 << 16, 8192
F_ADD_SEALS, SEALS = 1033, 0x1 | 0x2 | 0x4
STATUS = {0: "ok", 1: "bad message", 2: "bad file", 3: "denied", 4: "busy", 5: "stop"}


def ring_file(session, size=RING_ALIGNMENT, seals=SEALS):
    fd = os.memfd_create("ring", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fields = (0x31474E4952535353, 1, RING_HEADER, session, os.getpid(), 2, size, 0, 256, *[0] * 9)
    header = struct.pack("<QII16siIQIIIIQiIQQQQ", *fields)
    os.pwrite(fd, header, 0)
    if seals:
        fcntl.fcntl(fd, F_ADD_SEALS, seals)
    return fd


def hello(session, size=RING_ALIGNMENT, **changed):
    now = time.monotonic_ns()
    fields = {
        "magic": 0x314F4C4C45485353,
        "version": 1,
        "size": HELLO.size,
        "session": session,
        "pid": os.getpid(),
        "tid": os.getpid(),
        "uid": os.getuid(),
        "clock_kind": 2,
        "ticks": now,
        "monotonic_ns": now,
        "realtime_ns": time.time_ns(),
        "file_bytes": size,
        "parent_known": 0,
        "parent": bytes(16),
        "facts_bytes": 0,
    }
    return HELLO.pack(*{**fields, **changed}.values())


def say(path, message, fds):
    """The daemon's answer by name; the connection too, when it said yes."""
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(20)
    try:
        peer.connect(path)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        peer.sendmsg([message], rights)
        answer = peer.recv(40, socket.MSG_WAITALL)
    except OSError:
        return "closed"
    finally:
        peer.close()
    return STATUS.get(struct.unpack_from("<I", answer, 12)[0], "?") if len(answer) == 40 else "closed"


def rss_kb(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1])


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def good_agent(daemon, name):
    """Runs a process that annotates and lives for another second; returns how much later its row can be queried."""
    code = f"import stepscope as ss, time\nwith ss.annotate({name!r}): pass\ntime.sleep(1)"
    run_as_good_job(daemon, code)
    begun = time.monotonic()
    wait_until(lambda: any(r["name"] == name for r in rows_of_good_job(daemon)), 20, f"the row of {name}")
    return time.monotonic() - begun


def run_as_good_job(daemon, code):
    environment = {**daemon.agent_env(), "STEPSCOPE_JOB": "good"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=120)


def rows_of_good_job(daemon):
    try:
        return spans(daemon, "good")
    except RpcError:  # it has not come yet
        return []


def test_hellos_of_every_shape_change_nothing(daemon):
    path, pid = daemon.facts()["agent_socket"], daemon.process.pid
    good_agent(daemon, "before")
    files, memory = open_files(pid), rss_kb(pid)
    session = os.urandom(16)
    good = ring_file(session)
    huge = ring_file(session, 1 << 40)
    zero = os.open("/dev/zero", os.O_RDONLY)
    left, right = socket.socketpair()
    reader, writer = os.pipe()
    folder = os.open("/", os.O_RDONLY)
    cases = [
        (hello(session, 1 << 40), [huge], "bad file"),
        (hello(session), [ring_file(session, seals=0)], "bad file"),
        (hello(session), [zero], "bad file"),
        (hello(session), [reader], "bad file"),
        (hello(session), [left.fileno()], "bad file"),
        (hello(session), [folder], "bad file"),
        (hello(session), [], "bad file"),
        (hello(session), [good, good], "bad message"),
        (hello(session), [good] * 200, "bad message"),  # more than fit: the control message is truncated
        (hello(session, pid=1), [good], "denied"),
        (hello(session, pid=os.getppid()), [good], "denied"),
        (hello(session, uid=os.getuid() + 1), [good], "denied"),
        (hello(session, size=1 << 31), [good], "bad file"),
        (hello(session, facts_bytes=0xFFFFFFFF), [good], "bad message"),
        (hello(session, version=0), [good], "bad message"),
        (hello(os.urandom(16)), [good], "bad file"),
        (os.urandom(4096), [good], "bad message"),
    ]
    for message, fds, wanted in cases:
        assert say(path, message, fds) == wanted
    for _ in range(50):
        say(path, hello(session, file_bytes=int.from_bytes(os.urandom(7), "little")), [good])
    assert good_agent(daemon, "after") < 5
    wait_until(lambda: open_files(pid) <= files + 2, 20, f"the files of strangers to be closed: {files} before")
    assert rss_kb(pid) - memory < 32_000
    doctor = daemon.call("ControlService/GetDoctor")
    numbers = next(c["numbers"] for c in doctor["collectors"] if c["name"] == "agent")
    rejected = {k: int(v) for k, v in numbers.items() if k.startswith("rejected")}
    assert sum(rejected.values()) >= len(cases) and len(rejected) < 20, rejected
    time.sleep(1.2)  # refusals of one user are logged once a second
    assert say(path, hello(session, pid=1), [good]) == "denied"
    assert "refused: hello claims pid" in daemon.log_text()


def flood(path, count, seconds):
    """Opens `count` sessions from short-lived children and from itself; returns answers by name."""
    counts = {}
    begun = time.monotonic()
    for i in range(count):
        session = os.urandom(16)
        if i % 20 == 0:
            child = os.fork()
            if child == 0:
                fd = ring_file(session)
                say(path, hello(session), [fd])
                os._exit(0)
            os.waitpid(child, 0)
            continue
        fd = ring_file(session)
        answer = say(path, hello(session), [fd])
        os.close(fd)
        counts[answer] = counts.get(answer, 0) + 1
        ahead = begun + (i + 1) * seconds / count - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
    return counts


def test_ten_thousand_sessions_a_minute(daemon):
    """At that rate: 2,000 in twelve seconds here, the whole minute with --full."""
    path, pid = daemon.facts()["agent_socket"], daemon.process.pid
    count, seconds = (10_000, 60) if FULL else (2_000, 12)
    good_agent(daemon, "before")
    child = os.fork()
    if child == 0:
        try:
            flood(path, count // 10, seconds / 10)  # pages and threads that stay
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    time.sleep(2)
    files, memory = open_files(pid), rss_kb(pid)
    child = os.fork()
    if child == 0:
        try:
            counts = flood(path, count, seconds)
            os._exit(0 if counts.get("ok", 0) > 0 and not counts.get("closed") else 1)
        finally:
            os._exit(2)
    waits, most_files = [], 0
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        waits.append(good_agent(daemon, "during_" + "x" * (len(waits) + 1)))  # a number would be split off
        most_files = max(most_files, open_files(pid))
    assert waits and max(waits) < 5, waits
    assert sorted(waits)[len(waits) // 2] < 2, waits
    wait_until(lambda: open_files(pid) <= files + 8, 30, f"files of ended sessions to be closed; before: {files}")
    wait_until(lambda: daemon.call("GetNode").get("sessions", 0) <= 1, 30, "the sessions to end")
    assert most_files < files + 1500
    assert rss_kb(pid) - memory < (60_000 if FULL else 30_000), f"{memory} kB before, {rss_kb(pid)} after"


def test_a_user_that_asks_too_fast_is_told_to_wait_and_a_job_of_many_workers_is_not(daemon):
    """The allowance of a user is 16,384 hellos at once, then 1,000 a second."""
    path = daemon.facts()["agent_socket"]
    garbage = hello(os.urandom(16), version=0)
    answers = []
    while "busy" not in answers[-1:] and len(answers) < 60_000:
        answers.append(say(path, garbage, []))
    assert answers[-1] == "busy" and answers[0] == "bad message", set(answers)
    assert len(answers) > 16_384
    time.sleep(3)
    workers = "\n".join(
        [
            "import os, time, stepscope as ss",
            "with ss.annotate('parent'): pass",
            "time.sleep(1)",
            "for i in range(300):",
            "    if os.fork() == 0:",
            "        with ss.annotate('worker'): pass",
            "        os._exit(0)",
            "for i in range(300): os.wait()",
        ]
    )
    run_as_good_job(daemon, workers)
    wait_until(
        lambda: sum(r["name"] == "worker" for r in rows_of_good_job(daemon)) == 300, 30, "the rows of 300 workers"
    )


def test_a_damaged_block_is_named_and_the_rest_stays_readable(make_daemon, short_dir):
    """Between two lives of the daemon a stored block is damaged on disk."""
    out = short_dir / "out"
    out.mkdir()
    daemon = make_daemon().start()
    code = "import stepscope as ss, time\n" + "\n".join(
        f"for i in range(4000):\n    with ss.annotate('part_{n}_' + str(i * 7919 % 4001)): pass\ntime.sleep(1.2)"
        for n in range(4)
    )
    subprocess.run([sys.executable, "-c", code], env=daemon.agent_env(), check=True, timeout=120)
    job = daemon.call("ListJobs")["jobs"][0]["job"]
    wait_until(lambda: len(spans(daemon, job)) == 16_000, 20, "all rows")
    daemon.stop()
    daemon.start()  # the log becomes files
    daemon.stop()
    blobs = sorted((daemon.data_dir / "store").glob("*.blob"), key=lambda p: p.stat().st_size)
    blob = bytearray(blobs[-1].read_bytes())
    blocks = [
        m.end() for m in re.finditer(rb"\0\0\0.\0\x03.{10}SSBK", blob, re.DOTALL)
    ]  # a key of the span table, then its block
    assert len(blocks) >= 3, blocks
    blob[blocks[1] + 200] ^= 0x10
    blobs[-1].write_bytes(blob)

    daemon.settings = (f"upload.url=file://{out}", "upload.jitter_ms=0")
    daemon.start()
    rows = wait_until(lambda: spans(daemon, job), 20, "the rows that are left")
    assert 4_000 <= len(rows) < 16_000
    job_now = wait_until(
        lambda: (
            (j := daemon.call("GetJob", job=job)) and [x for x in j["loss"] if x["reason"] == "damaged block"] and j
        ),
        20,
        "the loss",
    )
    loss = [x for x in job_now["loss"] if x["reason"] == "damaged block"]
    assert loss[0]["stage"] == "store" and loss[0]["table"] == "span", loss
    holes = daemon.call("GetSlices", job=job, table="span", limit=1)["holes"]
    assert any(h["reason"] == "damaged block" for h in holes), holes
    assert "part_" in stepscope("report", job, data_dir=daemon.data_dir).stdout
    before = len(spans(daemon, job, "loss"))
    daemon.stop()
    daemon.start()
    assert len(spans(daemon, job)) == len(rows)
    assert len(spans(daemon, job, "loss")) == before, "it is told once"
    wait_until(lambda: list(out.rglob("span/**/*.parquet")), 60, "the upload of what is left")
