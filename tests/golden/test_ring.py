# SPDX-License-Identifier: Apache-2.0
"""The committed golden ring bytes, read by the independent reader, say what was recorded.

tests/unit/agent writes the same bytes."""

import pathlib

import pytest
import ring_reader

HERE = pathlib.Path(__file__).parent


def load(name):
    return bytes.fromhex((HERE / f"{name}.hex").read_text())


def test_every_kind_a_thread_writes():
    assert ring_reader.read_records(load("ring_example")) == [
        {"kind": "thread", "ticks": 100, "tid": 77, "comm": "main"},
        {"kind": "begin", "name": "step", "domain": 1, "ticks": 1000, "number": 12},
        {"kind": "begin", "name": "load", "domain": 0, "ticks": 1010},
        {"kind": "end", "ticks": 1020},
        {"kind": "end", "ticks": 1030},
        {
            "kind": "token_begin",
            "name": "request",
            "domain": 0,
            "ticks": 1040,
            "token": 7,
            "number": 3,
            "has_number": 1,
        },
        {"kind": "token_end", "ticks": 1050, "token": 7},
        {"kind": "mark", "name": "load", "domain": 0, "ticks": 1060, "number": 0},
        {"kind": "counter", "name": "loss", "domain": 0, "ticks": 1070, "value": 0.5},
        {"kind": "info", "name": "lr", "domain": 0, "ticks": 1080, "value": "3e-4"},
        {"kind": "window", "ticks": 1090, "number": 1},
        {"kind": "gil", "ticks": 1100, "begin": 0x7000, "end": 0x7010},
        {
            "kind": "anchor",
            "ticks": 1110,
            "ticks_width": 4,
            "monotonic_ns": 5_000_000_000,
            "realtime_ns": 1_700_000_000_000_000_000,
        },
    ]


def test_loss_is_told_once_and_no_span_is_half():
    records = ring_reader.read_records(load("ring_lossy"))
    begins = [r["number"] for r in records if r["kind"] == "begin"]
    ends = [r for r in records if r["kind"] == "end"]
    lost = [r for r in records if r["kind"] == "lost"]
    assert len(begins) == len(ends)
    assert begins == sorted(begins) and begins[0] == 0
    assert sum(r["records"] for r in lost) == lost[-1]["total"]
    assert len(begins) + len(ends) + lost[-1]["total"] == 40
    assert lost[0]["first_ticks"] <= lost[0]["last_ticks"]


@pytest.mark.parametrize("at", [2, 3])
def test_a_broken_size_is_refused(at):
    data = bytearray(load("ring_example"))
    data[at] = 0xFF
    with pytest.raises(ValueError, match="size"):
        ring_reader.read_records(bytes(data))


def test_an_unknown_kind_is_skipped_by_its_size():
    data = load("ring_example")
    unknown = (999).to_bytes(2, "little") + (16).to_bytes(2, "little") + bytes(12)
    assert ring_reader.read_records(unknown + data) == ring_reader.read_records(data)
