# SPDX-License-Identifier: Apache-2.0
"""Reads the records of a stepscope ring, written from docs/formats/ring.md alone: a second opinion on the C++ writer and decoder.

python3 ring_reader.py FILE.hex      prints one record per line as JSON
"""

import json
import struct
import sys

PAD, NAME, BEGIN, BEGIN_N, END, TOKEN_BEGIN, TOKEN_END, MARK, COUNTER, INFO, WINDOW, LOST, THREAD, ANCHOR, GIL = range(
    1, 16
)

# kind: (name, struct behind the 8-byte header, field names)
LAYOUTS = {
    BEGIN: ("begin", "<Q", ("ticks",)),
    BEGIN_N: ("begin", "<Qq", ("ticks", "number")),
    END: ("end", "<Q", ("ticks",)),
    TOKEN_BEGIN: ("token_begin", "<QQqII", ("ticks", "token", "number", "has_number", None)),
    TOKEN_END: ("token_end", "<QQqII", ("ticks", "token", None, None, None)),
    MARK: ("mark", "<Qq", ("ticks", "number")),
    COUNTER: ("counter", "<Qd", ("ticks", "value")),
    WINDOW: ("window", "<Qq", ("ticks", "number")),
    LOST: ("lost", "<QQQQQ", ("records", "bytes", "first_ticks", "last_ticks", "total")),
    THREAD: ("thread", "<Qi4x16s", ("ticks", "tid", "comm")),
    ANCHOR: ("anchor", "<QQQQ", ("ticks", "ticks_width", "monotonic_ns", "realtime_ns")),
    GIL: ("gil", "<QQQ", ("ticks", "begin", "end")),
}


def read_records(data):
    """The records of a span of ring bytes as dicts, PAD and NAME resolved away; raises ValueError where the format is broken."""
    names, records, at = {}, [], 0
    while at < len(data):
        kind, size, name_id = struct.unpack_from("<HHI", data, at)
        if size < 8 or size % 8 or at + size > len(data):
            raise ValueError(f"record at {at}: size {size}")
        body = data[at + 8 : at + size]
        at += size
        if kind == PAD:
            continue
        if kind == NAME:
            domain, flags, length = struct.unpack_from("<HHI", body)
            names[name_id] = {"name": body[8 : 8 + length].decode(), "domain": domain, "cut": bool(flags & 1)}
            continue
        record = {}
        if name_id:
            if name_id not in names:
                raise ValueError(f"name {name_id} is used before its NAME record")
            record.update(name=names[name_id]["name"], domain=names[name_id]["domain"])
        if kind == INFO:
            ticks, length = struct.unpack_from("<QI", body)
            record.update(kind="info", ticks=ticks, value=body[16 : 16 + length].decode())
        elif kind in LAYOUTS:
            label, layout, fields = LAYOUTS[kind]
            values = struct.unpack_from(layout, body)
            record.update(kind=label, **{f: v for f, v in zip(fields, values, strict=True) if f})
            if kind == THREAD:
                record["comm"] = record["comm"].rstrip(b"\0").decode()
        else:
            continue  # a newer writer: skipped by size
        records.append(record)
    return records


if __name__ == "__main__":
    for line in read_records(bytes.fromhex(open(sys.argv[1]).read())):
        print(json.dumps(line))
