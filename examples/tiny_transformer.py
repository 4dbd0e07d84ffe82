# SPDX-License-Identifier: Apache-2.0
"""What the two training examples share: a small transformer language model, a data set that really tokenises, the options,
the set-up of gloo data parallelism and the timing. Nothing in here knows stepscope."""

import argparse
import contextlib
import os
import random
import re
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

VOCABULARY = 512
CONTEXT = 64
WORDS = "the loss of a step is what all ranks waited for while one of them read its data from a slow disk again".split()


class SyntheticText(Dataset):
    """Makes up a document per index and tokenises it, which costs a loader worker real CPU time."""

    _pattern = re.compile(r"\w+|[^\w\s]")

    def __init__(self, documents, seed):
        self._documents = documents
        self._seed = seed

    def __len__(self):
        return self._documents

    def __getitem__(self, index):
        source = random.Random(self._seed * 1_000_003 + index)
        text = " ".join(source.choice(WORDS) + source.choice(("", "", ",", ".")) for _ in range(4 * CONTEXT))
        tokens = [self._token(piece) for piece in self._pattern.findall(text.lower())]
        return torch.tensor(tokens[: CONTEXT + 1])

    @staticmethod
    def _token(piece):
        value = 0
        for letter in piece:
            value = (value * 31 + ord(letter)) % VOCABULARY
        return value


class TinyTransformer(nn.Module):
    def __init__(self, width=128, layers=4, heads=4):
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, width)
        self.position = nn.Parameter(torch.zeros(CONTEXT, width))
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCABULARY)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT), persistent=False)

    def forward(self, tokens):
        hidden = self.token(tokens) + self.position
        return self.head(self.layers(hidden, mask=self.mask, is_causal=True))


def parse_options(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--steps", type=int, default=40, help="optimizer steps (default 40)")
    parser.add_argument("--seed", type=int, default=1, help="seed of weights and data (default 1)")
    parser.add_argument("--batch", type=int, default=24, help="sequences per rank and step (default 24)")
    parser.add_argument("--workers", type=int, default=2, help="loader processes per rank (default 2)")
    parser.add_argument(
        "--profiler", choices=["none", "torch"], default="none", help="torch: torch.profiler over all steps"
    )
    parser.add_argument("--profiler-dir", type=Path, default=Path("torch_profile"), help="for its .json.gz, one a rank")
    parser.add_argument("--step-times", type=Path, help="rank 0 writes the ns of each step to this file, one a line")
    return parser.parse_args()


def join_ranks():
    """Rank and world size as torchrun gives them; one process alone works too."""
    torch.set_num_threads(1)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "0")
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    dist.init_process_group("gloo", rank=rank, world_size=world)
    return rank


def build(options):
    """Model under DDP, its optimizer and a loader that yields exactly --steps batches."""
    torch.manual_seed(options.seed)
    model = nn.parallel.DistributedDataParallel(TinyTransformer())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    documents = SyntheticText(options.steps * options.batch * dist.get_world_size(), options.seed)
    loader = DataLoader(
        documents,
        batch_size=options.batch,
        sampler=DistributedSampler(documents, seed=options.seed),
        num_workers=options.workers,
        persistent_workers=False,
    )
    return model, optimizer, loader


def next_token_loss(logits, batch):
    return nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), batch[:, 1:].reshape(-1))


class Progress:
    """Times steps, prints one line each 20 on rank 0 and the total at the end."""

    def __init__(self, options, rank):
        self._rank = rank
        self._file = options.step_times
        self._step_ns = []
        self._started = self._last = time.perf_counter_ns()

    def step_done(self, loss):
        now = time.perf_counter_ns()
        self._step_ns.append(now - self._last)
        self._last = now
        if self._rank == 0 and len(self._step_ns) % 20 == 0:
            mean_ms = sum(self._step_ns[-20:]) / 20e6
            print(f"step {len(self._step_ns)}: loss {loss.item():.4f}, {mean_ms:.1f} ms a step", flush=True)

    def finish(self):
        if self._rank != 0:
            return
        total_s = (time.perf_counter_ns() - self._started) / 1e9
        print(f"{len(self._step_ns)} steps in {total_s:.2f} s", flush=True)
        if self._file is not None:
            self._file.write_text("".join(f"{ns}\n" for ns in self._step_ns))


@contextlib.contextmanager
def torch_profiler(options, rank):
    """With --profiler torch: everything inside is profiled and exported as gzipped Chrome JSON."""
    if options.profiler == "none":
        yield
        return
    options.profiler_dir.mkdir(parents=True, exist_ok=True)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        yield
    profiler.export_chrome_trace(str(options.profiler_dir / f"rank{rank}.json.gz"))
