# SPDX-License-Identifier: Apache-2.0
"""Trains a small transformer on two CPU ranks, annotated with stepscope.

    stepscope run -- torchrun --nproc-per-node 2 examples/train_ddp.py --steps 40

The annotations cost well under a microsecond each and do nothing where no daemon listens. train_ddp_plain.py is the same
training without them.
"""

import stepscope as ss
import torch.distributed as dist
from tiny_transformer import Progress, build, join_ranks, next_token_loss, parse_options, torch_profiler


@ss.annotate("forward")
def forward(model, batch):
    return next_token_loss(model(batch[:, :-1]), batch)


def main():
    options = parse_options(__doc__)
    rank = join_ranks()
    model, optimizer, loader = build(options)
    ss.info(batch=options.batch, lr=optimizer.defaults["lr"])
    ss.start()
    progress = Progress(options, rank)
    with torch_profiler(options, rank):
        for batch in ss.steps(loader):
            optimizer.zero_grad()
            loss = forward(model, batch)
            with ss.annotate("backward"):
                loss.backward()
            with ss.annotate("optimizer"):
                optimizer.step()
            ss.counter("loss", loss.item())
            progress.step_done(loss)
    ss.stop()
    progress.finish()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
