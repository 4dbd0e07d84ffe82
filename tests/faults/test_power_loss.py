# SPDX-License-Identifier: Apache-2.0
"""Power loss, modelled on the store of a killed daemon: what was not synced to the disk is cut off, or reads as zeroes, and the
machine comes up with another boot id. The store is synced once a second, so what is missing is younger than about that, lies in
the one row of `loss` that tells of it, and nothing is doubled. Damage beyond that model is survived or named."""

import os
import random
import shutil
import time
import uuid

import pytest
from conftest import BUILD, DAEMON_AWAY, DAMAGED, FULL, assert_stored_once, losses, numbers_by_slot, spans, wait_until

CUTS = 200 if FULL else 12
DAMAGES = 200 if FULL else 4
MS = 1_000_000
STORE = 6  # LossStage
SYNC_NS = 1_500 * MS  # a second, and some for a loaded machine
KINDS = (".log", ".sst", ".blob")

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to mount, for another boot id")


class Crash:
    """The store of a daemon killed under load, and what was synced of its files (synced_files.c)."""

    def __init__(self, make_daemon, make_tree, folder):
        notes = folder / "synced"
        env = {"LD_PRELOAD": str(BUILD / "tests" / "synced_files.so"), "SYNCED_FILES": str(notes)}
        self.daemon = make_daemon(name="crashed", env=env).start()
        self.store = self.daemon.data_dir / "store"
        self.tree = make_tree(self.daemon, processes=2, threads=2, pause_us=8000, job="load")
        wait_until(lambda: self.daemon.call("ListJobs").get("jobs"), 30, "the job")
        time.sleep(1)
        self.daemon.kill()
        self.daemon.start()  # recovery leaves table files beside the new log
        for _ in range(29):
            time.sleep(0.1)
            self.daemon.call("ListJobs")  # watched, every other seal is synced; else every one
        self.time = time.monotonic_ns()
        self.daemon.kill()
        self.tree.kill()
        synced = {}
        for line in notes.read_text().splitlines():
            inode, size = map(int, line.split())
            synced[inode] = max(size, synced.get(inode, 0))
        files = [path for path in self.store.iterdir() if path.suffix in KINDS or "MANIFEST" in path.name]
        self.sizes = {path.name: path.stat().st_size for path in files}
        self.synced = {path.name: synced.get(path.stat().st_ino, 0) for path in files}
        self.log = max(name for name in self.sizes if name.endswith(".log"))
        assert 0 < self.synced[self.log] <= self.sizes[self.log]

    def copy(self, folder):
        shutil.copytree(self.store, folder / "store")
        return folder / "store"

    def lose_power(self, folder, share, zeroes):
        """Of what was not synced of each file, `share` is left; the rest is gone, or reads as zeroes."""
        store = self.copy(folder)
        for name, size in self.sizes.items():
            os.truncate(store / name, self.synced[name] + int(share * (size - self.synced[name])))
            if zeroes:
                os.truncate(store / name, size)

    def damage(self, folder, dice, cuts):
        """Cuts the log anywhere, or takes any one file away."""
        store = self.copy(folder)
        if cuts:
            os.truncate(store / self.log, dice.randrange(self.sizes[self.log]))
        else:
            (store / dice.choice(sorted(self.sizes))).unlink()


@pytest.fixture
def after_boot(make_daemon, short_dir):
    """after_boot(prepare): a daemon after a reboot, on a copy of a store that `prepare(folder)` lays out."""

    def start(prepare):
        name = f"boot-{uuid.uuid4().hex[:8]}"
        folder = short_dir / name
        folder.mkdir()
        prepare(folder)
        (folder / "boot_id").write_text(f"{uuid.uuid4()}\n")
        bind = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'
        daemon = make_daemon("sched.mode=off", "counters.enabled=false", "host.enabled=false", name=name)
        return daemon.start(prefix=("unshare", "-m", "sh", "-c", bind, folder / "boot_id"))

    return start


def rows_of(daemon):
    """{(table, identity): end} of the job's spans and turns, and all (name, number) of spans."""
    found = spans(daemon, "load")
    ends = {("span", row["name"], row["number"]): row["start_ns"] + row["dur_ns"] for row in found}
    for row in spans(daemon, "load", table="sched_slice"):
        ends["sched_slice", row["lane"], row["start_ns"]] = row["start_ns"] + row["dur_ns"]
    return ends, [(row["name"], row["number"]) for row in found]


def away(daemon):
    return [row for row in losses(daemon, "load", DAEMON_AWAY) if row[2] == STORE]


def assert_prefixes(committed, numbers):
    """Of every thread the first spans, each once, whatever number."""
    stored = numbers_by_slot(numbers)
    assert_stored_once({slot: min(count, len(stored.get(slot, []))) for slot, count in committed.items()}, stored)


@needs_root
def test_after_a_power_loss_about_the_last_second_is_missing_and_told(
    make_daemon, make_tree, after_boot, short_dir, capsys
):
    dice = random.Random(13)
    crash = Crash(make_daemon, make_tree, short_dir)
    whole = after_boot(crash.copy)
    everything, numbers = rows_of(whole)
    assert_prefixes(crash.tree.committed(), numbers)
    assert len(away(whole)) == 1
    whole.stop()
    oldest = longest = 0
    for cut in range(CUTS):
        share = 0 if cut < 2 else dice.random()
        daemon = after_boot(lambda folder, share=share, zeroes=cut % 3 == 1: crash.lose_power(folder, share, zeroes))
        rows, numbers = rows_of(daemon)
        assert_prefixes(crash.tree.committed(), numbers)
        told = away(daemon)
        assert len(told) == 1, "one interval, told once"
        begin, end, *_ = told[0]
        assert end - begin < 2_500 * MS and end <= crash.time + SYNC_NS
        missing = {row: at for row, at in everything.items() if row not in rows}
        assert rows.keys() <= everything.keys()
        outside = {row: (at - begin) / MS for row, at in missing.items() if not begin <= at <= end}
        assert not outside, (
            f"{len(outside)} of {len(missing)} missing rows are not told of: {list(outside.items())[:5]}"
        )
        oldest = max([oldest, *(crash.time - at for at in missing.values())])
        longest = max(longest, end - begin)
        assert daemon.call("GetJob", job="load")["state"] != "running"
        daemon.stop()
        shutil.rmtree(daemon.data_dir)
    assert longest <= 1000 * MS
    with capsys.disabled():
        print(
            f"\n  {CUTS} power losses: {len(everything)} rows, the oldest one lost was {oldest / MS:.0f} ms old; "
            f"the interval told is at most {longest / MS:.0f} ms"
        )


@needs_root
def test_damage_that_no_power_loss_does_is_survived_or_named(make_daemon, make_tree, after_boot, short_dir, capsys):
    """A disk that said "synced" and was not, or lost whole files. What is missing came after all that is there, or is told."""
    dice = random.Random(17)
    crash = Crash(make_daemon, make_tree, short_dir)
    whole = after_boot(crash.copy)
    everything, _ = rows_of(whole)
    whole.stop()
    outcomes = {"opened": 0, "holes": 0, "named": 0}
    for cut in range(DAMAGES):
        try:
            daemon = after_boot(lambda folder, cuts=cut % 2 == 1: crash.damage(folder, dice, cuts))
        except AssertionError as failure:
            assert "the store is damaged: move the directory away" in str(failure)
            outcomes["named"] += 1
            continue
        outcomes["opened"] += 1
        if daemon.call("ListJobs").get("jobs"):
            rows, numbers = rows_of(daemon)
            assert len(set(numbers)) == len(numbers) and rows.keys() <= everything.keys()
            [(last, *_)] = away(daemon)
            told = [(begin, end) for begin, end, _, reason, _ in losses(daemon, "load") if reason == DAMAGED]
            holes = [row for row, at in everything.items() if row not in rows and at < last]
            untold = [row for row in holes if not any(begin <= everything[row] <= end for begin, end in told)]
            assert not untold, f"{len(untold)} of {len(holes)} missing rows are not told of: {untold[:5]}, {told}"
            outcomes["holes"] += bool(holes)
        daemon.stop()
        shutil.rmtree(daemon.data_dir)
    with capsys.disabled():
        print(
            f"\n  {DAMAGES} damaged stores: {outcomes['opened']} opened without a doubled row, "
            f"{outcomes['holes']} of them with holes that are told, {outcomes['named']} named as damaged"
        )
    assert outcomes["opened"]
