# SPDX-License-Identifier: Apache-2.0
"""The programs test_waits.py records, each with waits whose cause it knows. `python wait_programs.py NAME` runs one and prints
what it knows as one line of JSON. Node time is CLOCK_MONOTONIC, which time.monotonic_ns() reads."""

import ctypes
import json
import os
import random
import sys
import threading
import time


def lock_address():
    """Where CPython 3.11 keeps its GIL (the daemon's test asks this interpreter only)."""
    return ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime")) + 360


def thread_state():
    get = ctypes.pythonapi.PyThreadState_Get
    get.restype = ctypes.c_void_p
    return get()


def spin(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


def holder():
    """The main thread sleeps in C 20 times for 50 ms without giving the GIL up, while another thread wants to compute."""
    usleep = ctypes.PyDLL(None).usleep
    facts = {}
    done = threading.Event()

    def wait():
        facts["waiter"] = threading.get_native_id()
        while not done.is_set():
            spin(0.001)

    waiter = threading.Thread(target=wait)
    waiter.start()
    held = []
    for _ in range(20):
        begin = time.monotonic_ns()
        usleep(50_000)
        held.append((begin, time.monotonic_ns()))
        time.sleep(0.005)
    done.set()
    waiter.join()
    return {**facts, "holder": threading.get_native_id(), "held": held}


def rivals():
    """Three threads that hold the GIL in C, compute in Python, and let it go, at random, for three seconds."""
    usleep = ctypes.PyDLL(None).usleep
    threads = {}

    def rival(seed):
        pick = random.Random(seed)
        threads[threading.get_native_id()] = thread_state()
        until = time.monotonic() + 3
        while time.monotonic() < until:
            what = pick.randrange(3)
            if what == 0:
                usleep(pick.randrange(1_000, 15_000))
            elif what == 1:
                spin(pick.uniform(0.001, 0.015))
            else:
                time.sleep(pick.uniform(0.0005, 0.003))

    started = [threading.Thread(target=rival, args=(seed,)) for seed in range(3)]
    for thread in started:
        thread.start()
    while len(threads) < 3:
        time.sleep(0.001)
    print(json.dumps({"pid": os.getpid(), "lock": lock_address(), "threads": list(threads.items())}), flush=True)
    for thread in started:
        thread.join()
    return {}


class SlowItems:
    """A data set whose items take 8 ms, asleep, as if read from a slow store."""

    def __len__(self):
        return 120

    def __getitem__(self, index):
        time.sleep(0.008)
        return index


def loader():
    """Takes every item from two loader workers as fast as they come."""
    from torch.utils.data import DataLoader

    begins = []
    for _ in DataLoader(SlowItems(), num_workers=2, batch_size=2):
        begins.append(time.monotonic_ns())
    return {"main": threading.get_native_id(), "begin": begins[4], "end": begins[-1]}  # workers have started by then


def all_reduce_rank(rank, port, results):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    tensor = torch.ones(16)
    dist.all_reduce(tensor)
    begin = time.monotonic_ns()
    for _ in range(30):
        if rank == 1:
            time.sleep(0.02)
        dist.all_reduce(tensor)
    results.put((rank, os.getpid(), begin, time.monotonic_ns()))
    dist.barrier()
    dist.destroy_process_group()


def all_reduce():
    """Two ranks reduce 30 times; rank 1 comes 20 ms late each time."""
    import socket

    import torch.multiprocessing as processes

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    start = processes.get_context("spawn")
    results = start.Queue()
    ranks = [start.Process(target=all_reduce_rank, args=(rank, port, results)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    found = sorted(results.get() for _ in ranks)
    for rank in ranks:
        rank.join()
    return {"ranks": found}


if __name__ == "__main__":
    import stepscope as ss

    ss.mark("begin")
    print(json.dumps(globals()[sys.argv[1]]()), flush=True)
