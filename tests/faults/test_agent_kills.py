# SPDX-License-Identifier: Apache-2.0
"""SIGKILL of annotating processes at any moment: while they open a session, acquire a ring, fork, or just record."""

import random
import time

from conftest import FULL, assert_stored_once, dropped_spans, stored_numbers, wait_until

KILLS = 1000 if FULL else 40


def jobs_of(daemon):
    return {job["job"] for job in daemon.call("ListJobs").get("jobs", [])}


def test_a_killed_process_loses_no_span_it_committed(make_daemon, make_tree, capsys):
    dice = random.Random(7)
    daemon = make_daemon("sched.mode=off", "counters.enabled=false", "host.enabled=false").start()
    kills = rounds = rows = slots = strays = 0
    while kills < KILLS:
        rounds += 1
        job, known = f"round_{rounds}", jobs_of(daemon)
        tree = make_tree(daemon, processes=3, threads=3, pause_us=dice.choice((0, 100, 1000)), churn=True, job=job)
        if rounds % 3:
            wait_until(lambda t=tree: any(t.committed().values()), 30, "the first committed span")
        time.sleep(dice.uniform(0, 0.05) if rounds % 2 else dice.uniform(0, 0.2))
        kills += max(tree.processes(), 1)
        tree.kill()
        committed = tree.committed()
        if not any(committed.values()):
            continue  # killed before its first span
        total = sum(committed.values())

        def stored(known=known):
            """A child that died in the instant in which its hello was read is a job of its own: nobody can tell whose it was."""
            merged = {}
            for name in jobs_of(daemon) - known:
                for slot, numbers in stored_numbers(daemon, name).items():
                    merged.setdefault(slot, []).extend(numbers)
            return merged

        def dropped(known=known):
            return sum(dropped_spans(daemon, name) for name in jobs_of(daemon) - known)

        wait_until(
            lambda total=total: sum(map(len, stored().values())) + dropped() >= total,
            30,
            f"the salvage of the rings of {job}",
        )
        time.sleep(0.1)  # for a row too many
        rows += assert_stored_once(committed, stored(), dropped())
        slots += len(committed)
        strays += len(jobs_of(daemon) - known) - 1
    with capsys.disabled():
        print(
            f"\n  {kills} processes killed in {rounds} rounds: {rows} spans of {slots} threads stored once, none lost; "
            f"{strays} children in jobs of their own"
        )
    assert [c["found"] for c in daemon.call("ControlService/GetDoctor")["checks"] if not c["ok"]] == []
