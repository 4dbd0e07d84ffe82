# SPDX-License-Identifier: Apache-2.0
"""The committed golden blocks, read by the independent reader, hold the rows they were written from."""

import pathlib
import struct

import block_reader

HERE = pathlib.Path(__file__).parent
I64_MIN, I64_MAX = -(1 << 63), (1 << 63) - 1


def load(name):
    return block_reader.read_block(bytes.fromhex((HERE / f"{name}.hex").read_text()))


def rows_of(block, columns):
    """(lane, values…) of each row, absent columns as 0, sorted."""
    lanes = [lane["lane"] for lane in block["lanes"] for _ in range(lane["rows"])]
    zeros = [0] * len(lanes)
    return sorted(zip(lanes, *(block["columns"].get(c, zeros) for c in range(1, columns + 1)), strict=True))


def test_the_worked_example():
    block = load("block_example")
    assert block == {
        "header": {
            "version": [1, 0],
            "table": 3,
            "run": 7,
            "rows": 3,
            "min_time": 1_000_000,
            "max_time": 1_001_200,
            "clock_maps": [1],
        },
        "lanes": [
            {"lane": 3, "first": 0, "rows": 1, "clock_error_ns": 0, "lossy": False},
            {"lane": 5, "first": 1, "rows": 2, "clock_error_ns": 250, "lossy": False},
        ],
        "columns": {
            1: [1_000_200, 1_000_000, 1_000_500],
            2: [40, 500, 700],
            3: [4, 2, 2],
            4: [0, 1, 1],
            5: [0, 12, 13],
            6: [0, 1, 1],
        },
        "encodings": block["encodings"],
    }


def test_scheduler_turns():
    expected = []
    for i in range(2000):
        dur, wait = 1000 + i * 7919 % 30_011, i * 104_729 % 5003
        timer, user = i % 3 == 0, i % 4 == 0
        expected.append(
            (
                100 + i % 7,
                50_000_000_000 + i * 60_013 + wait,
                dur,
                wait,
                i % 7,
                0 if timer else 41_000 + i % 5,
                2 if timer else 1,
                -1 if user else 202,
                0 if user else 0x7F1234560000 + i % 11 * 64,
                3 if user else 0,
                1_000_000 + i // 7,
                dur - i % 150,
                wait + i % 90,
                0,
                0,
                0,
            )
        )
    block = load("block_sched_slice")
    assert rows_of(block, 15) == sorted(expected)
    lane = next(lane for lane in block["lanes"] if lane["lane"] == 103)
    assert lane["lossy"] and lane["clock_error_ns"] == 12_345


def test_doubles_and_a_late_row():
    def bits(value):
        return struct.unpack("<q", struct.pack("<d", value))[0]

    expected = [(1 + i % 2, (3 if i == 250 else i) * 1_000_000, 9, bits(i * 0.25), 0) for i in range(300)]
    block = load("block_counter")
    assert rows_of(block, 4) == sorted(expected)
    for lane in block["lanes"]:
        starts = block["columns"][1][lane["first"] : lane["first"] + lane["rows"]]
        assert starts == sorted(starts)


def test_the_ends_of_the_number_line():
    assert rows_of(load("block_extremes"), 9) == sorted(
        [
            (0xFFFFFFFF, I64_MAX, 0, 1, -1, I64_MIN, 1, I64_MAX, -1, 0),
            (0, I64_MIN, I64_MAX, 1, 0, I64_MAX, 1, I64_MIN, 1, 0),
            (0, -1, I64_MAX, 1, 1, 0, 1, 0, 0, 0),
        ]
    )


def test_an_empty_block():
    block = load("block_empty")
    assert block["header"]["rows"] == 0 and block["lanes"] == [] and block["columns"] == {}


def test_the_golden_blocks_use_every_encoding():
    used = {e for path in HERE.glob("block_*.hex") for e in load(path.stem)["encodings"].values()}
    assert used == set(range(8))
