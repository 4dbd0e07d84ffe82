# SPDX-License-Identifier: Apache-2.0
"""The demo training in blocks of steps, recorded or not, as the order of blocks says; rank 0 asks for each change and waits.

Run by torchrun from script/bench overhead with TOGGLE_ORDER (one letter a block: r recorded, n not), TOGGLE_STEPS (steps a
block), TOGGLE_ASK and TOGGLE_ANSWER (FIFOs). Annotations are made in recorded blocks only. Rank 0 prints "letter, ns a step" for
each block: the mean of its steps but the first, in which the change settles.
"""

import os
import sys
import time

sys.path.insert(0, os.environ["TOGGLE_EXAMPLES"])

import stepscope as ss
import torch.distributed as dist
from tiny_transformer import build, join_ranks, next_token_loss, parse_options


def recorded_step(model, optimizer, batch, number):
    with ss.step(number):
        optimizer.zero_grad()
        with ss.annotate("forward"):
            loss = next_token_loss(model(batch[:, :-1]), batch)
        with ss.annotate("backward"):
            loss.backward()
        with ss.annotate("optimizer"):
            optimizer.step()
        ss.counter("loss", loss.item())


def plain_step(model, optimizer, batch, number):
    optimizer.zero_grad()
    loss = next_token_loss(model(batch[:, :-1]), batch)
    loss.backward()
    optimizer.step()
    loss.item()


class Switch:
    """Asks the benchmark to begin or end recording; answers one line when it is done."""

    def __init__(self):
        self._ask = open(os.environ["TOGGLE_ASK"], "w")
        self._answer = open(os.environ["TOGGLE_ANSWER"])

    def turn(self, letter):
        print(letter, file=self._ask, flush=True)
        if self._answer.readline().strip() != letter:
            raise RuntimeError("the benchmark is gone")


def main():
    order, steps = os.environ["TOGGLE_ORDER"], int(os.environ["TOGGLE_STEPS"])
    options = parse_options(__doc__)
    options.steps = len(order) * steps
    rank = join_ranks()
    model, optimizer, loader = build(options)
    switch = Switch() if rank == 0 else None
    batches = iter(loader)
    for block, letter in enumerate(order):
        dist.barrier()
        if switch:
            switch.turn(letter)
        dist.barrier()
        one_step = recorded_step if letter == "r" else plain_step
        for step in range(steps):
            if step == 1:
                begun = time.perf_counter_ns()
            one_step(model, optimizer, next(batches), block * steps + step)
        if switch:
            print(letter, (time.perf_counter_ns() - begun) // (steps - 1), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
