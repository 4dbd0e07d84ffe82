# SPDX-License-Identifier: Apache-2.0
"""The store's disk gets full while jobs are recorded, and free again: nothing acknowledged is lost, what sources could not keep
is counted with its interval, recording goes on by itself, and the targets run unharmed."""

import ctypes
import os
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from conftest import (
    FULL,
    RING_FULL,
    assert_stored_once,
    dropped_spans,
    losses,
    stored_numbers,
    wait_for_agents,
    wait_until,
)

MB = 1 << 20
CLONE_NEWNS, MS_REC, MS_SLAVE = 0x20000, 0x4000, 0x80000
FULL_SECONDS = 20 if FULL else 5

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to mount")


def must(libc, result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@pytest.fixture
def small_disk(short_dir):
    """A folder with 96 MB, on a mount that only this process and its children see."""
    libc = ctypes.CDLL(None, use_errno=True)
    folder = short_dir / "disk"
    folder.mkdir()
    must(libc, libc.unshare(CLONE_NEWNS))
    must(libc, libc.mount(b"none", b"/", None, MS_REC | MS_SLAVE, None))
    must(libc, libc.mount(b"tmpfs", bytes(folder), b"tmpfs", 0, b"size=96m"))
    yield folder
    libc.umount2(bytes(folder), 2)


class Ballast:
    """A file that takes a disk's room."""

    def __init__(self, folder):
        self.path = folder / "ballast"

    def leave(self, left):
        """Grows until `left` bytes are free; 0 = until nothing can be written any more."""
        with open(self.path, "ab", buffering=0) as file:
            try:
                while True:
                    disk = os.statvfs(self.path)
                    more = disk.f_bavail * disk.f_frsize - left
                    if more <= 0 and left:
                        return
                    file.write(bytes(max(min(more, MB), 4096)))
            except OSError:
                pass

    def free(self):
        self.path.unlink()


def is_ready(daemon):
    try:
        return urllib.request.urlopen(f"http://{daemon.facts()['http']}/readyz", timeout=10).status == 200
    except urllib.error.HTTPError as refused:
        assert refused.code == 503
        return False


def store_check(daemon):
    checks = daemon.call("ControlService/GetDoctor")["checks"]
    return next(check for check in checks if check["name"] == "store")


def check_job(daemon, tree, job):
    """Produced = stored + counted drops, exactly."""
    tree.kill()
    committed = tree.committed()
    produced = sum(committed.values())

    deadline = time.monotonic() + 30
    stored, drops = {}, 0
    while sum(map(len, stored.values())) + drops < produced and time.monotonic() < deadline:
        time.sleep(0.1)
        stored, drops = stored_numbers(daemon, job), dropped_spans(daemon, job)
    rows = assert_stored_once(committed, stored, drops)
    assert produced <= rows + drops <= produced + len(committed), "a span more for each thread that was ending one"
    return rows, drops


@pytest.mark.parametrize("limit", ["the last byte", "store.min_free_bytes"])
def test_recording_goes_on_by_itself_once_a_full_disk_has_room(make_daemon, make_tree, small_disk, limit, capsys):
    by_config = limit == "store.min_free_bytes"
    daemon = make_daemon(f"store.min_free_bytes={40 * MB if by_config else 1}", name="disk/data").start()
    ballast = Ballast(small_disk)
    small_rings = {"STEPSCOPE_RING_BYTES": "16384"}
    tree = make_tree(daemon, processes=2, threads=2, pause_us=2000, job="early", env=small_rings)
    wait_until(lambda: daemon.call("ListJobs").get("jobs") and stored_numbers(daemon, "early"), 30, "the first rows")
    assert is_ready(daemon) and store_check(daemon)["ok"]

    filled = time.monotonic_ns()
    ballast.leave(20 * MB if by_config else 0)
    wait_until(lambda: not store_check(daemon)["ok"], 30, "the daemon to notice")
    said = store_check(daemon)
    assert not is_ready(daemon)
    assert "less than store.min_free_bytes" in said["found"], said
    late = make_tree(daemon, threads=2, pause_us=2000, job="late", env=small_rings)
    time.sleep(FULL_SECONDS)
    assert tree.process.poll() is None and late.process.poll() is None, "the targets run on"
    before = tree.committed()
    time.sleep(1)
    assert all(count > before[slot] for slot, count in tree.committed().items() if slot), "none of their threads waits"
    if by_config:
        disk = os.statvfs(small_disk)
        assert disk.f_bavail * disk.f_frsize > 19 * MB, "the daemon leaves the rest alone"
    ballast.free()
    freed = time.monotonic_ns()
    wait_until(lambda: store_check(daemon)["ok"] and is_ready(daemon), 30, "the daemon to go on")
    time.sleep(3)  # the late process, told to wait, comes again
    turns = daemon.call("GetSlices", job="late", table="sched_slice", limit=1)
    assert turns.get("slices"), "and is followed from then on"
    killed = time.monotonic_ns()
    daemon.kill()
    daemon.start()
    wait_for_agents(daemon, 3)

    results = [check_job(daemon, tree, "early"), check_job(daemon, late, "late")]
    # One, or several: what the store's own clean-up frees meanwhile takes rows for a moment. What rings of 16 KB do not hold
    # while the killed daemon starts is another hole.
    holes = [(b, e) for b, e, _, reason, _ in losses(daemon, "early") if reason == RING_FULL and b < killed]
    assert holes, "rings of 16 KB do not hold what came meanwhile"
    second = 1_000_000_000
    begin, end = min(b for b, _ in holes), max(e for _, e in holes)
    told = f"told with its interval: full from {filled} to {freed}, told from {begin} to {end}"
    assert filled - second <= begin <= filled + 4 * second and freed - second <= end <= freed + 4 * second, told
    with capsys.disabled():
        print(
            f"\n  {limit}: "
            + ", ".join(f"{rows} rows stored and {drops} counted as dropped" for rows, drops in results)
        )


def test_a_daemon_killed_on_a_full_disk_starts_again_once_it_has_room(make_daemon, make_tree, small_disk):
    daemon = make_daemon("store.min_free_bytes=1", name="disk/data").start()
    ballast = Ballast(small_disk)
    tree = make_tree(daemon, processes=2, threads=2, pause_us=5000, job="early")
    wait_until(lambda: daemon.call("ListJobs").get("jobs") and stored_numbers(daemon, "early"), 30, "the first rows")
    ballast.leave(0)
    wait_until(lambda: not store_check(daemon)["ok"], 60, "the daemon to notice")
    daemon.kill()
    try:
        daemon.start()
    except (AssertionError, OSError):
        pass  # it may end: there is no room for what a start writes
    ballast.free()
    if daemon.process.poll() is not None:
        daemon.start()
    wait_until(lambda: store_check(daemon)["ok"], 30, "the daemon to go on")
    wait_for_agents(daemon, 2)
    rows, drops = check_job(daemon, tree, "early")
    assert rows and not drops, "rings of 256 KB hold it all"


def test_a_start_on_a_full_disk_says_so_and_works_once_there_is_room(make_daemon, make_tree, small_disk):
    daemon = make_daemon("store.min_free_bytes=1", name="disk/data").start()
    tree = make_tree(daemon, threads=1, pause_us=2000, job="early")
    wait_until(lambda: daemon.call("ListJobs").get("jobs") and stored_numbers(daemon, "early"), 30, "the first rows")
    time.sleep(1)  # some of them are sealed
    tree.kill()
    daemon.kill()
    ballast = Ballast(small_disk)
    ballast.leave(0)
    command = [daemon.program, "--private", "--data-dir", daemon.data_dir, "--port", "0", "--http-port", "0"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1, refused.stderr
    assert "0 bytes free, and a store needs 1048576 to be opened; free some space" in refused.stderr
    ballast.free()
    daemon.start()
    assert stored_numbers(daemon, "early")
