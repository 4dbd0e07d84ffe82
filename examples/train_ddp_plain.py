# SPDX-License-Identifier: Apache-2.0
"""Trains a small transformer on two CPU ranks; knows nothing of stepscope.

    stepscope run -- torchrun --nproc-per-node 2 examples/train_ddp_plain.py --steps 40

Under `stepscope run` optimizer steps, training steps and data-loader waits are found without a change. train_ddp.py is the
same training with annotations.
"""

import torch.distributed as dist
from tiny_transformer import Progress, build, join_ranks, next_token_loss, parse_options, torch_profiler


def main():
    options = parse_options(__doc__)
    rank = join_ranks()
    model, optimizer, loader = build(options)
    progress = Progress(options, rank)
    with torch_profiler(options, rank):
        for batch in loader:
            optimizer.zero_grad()
            loss = next_token_loss(model(batch[:, :-1]), batch)
            loss.backward()
            optimizer.step()
            progress.step_done(loss)
    progress.finish()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
