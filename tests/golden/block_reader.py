# SPDX-License-Identifier: Apache-2.0
"""Reads a stepscope block, written from docs/formats/block.md alone: a second opinion on the C++ decoder.

python3 block_reader.py FILE.hex     prints the block as JSON
"""

import json
import sys

import pyarrow

U64 = (1 << 64) - 1


def signed(value):
    value &= U64
    return value - (1 << 64) if value >> 63 else value


def unzigzag(value):
    return (value >> 1) ^ -(value & 1)


class Cursor:
    def __init__(self, data):
        self.data, self.at = data, 0

    def varint(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def take(self, size):
        assert self.at + size <= len(self.data)
        self.at += size
        return self.data[self.at - size : self.at]

    def done(self):
        return self.at == len(self.data)


def read_header(data):
    assert data[:4] == b"SSBK", "not a block"
    assert data[4] == 1, f"format version {data[4]} is newer than this reader"
    size = int.from_bytes(data[6:8], "little")
    fields = Cursor(data[8 : 8 + size])
    header = {"version": [data[4], data[5]], "table": fields.varint(), "run": fields.varint(), "rows": fields.varint()}
    header["min_time"] = unzigzag(fields.varint())
    header["max_time"] = signed(header["min_time"] + fields.varint())
    body_bytes = fields.varint()
    header["clock_maps"] = [fields.varint() for _ in range(fields.varint())]
    return header, body_bytes, data[8 + size :]


def read_lanes(body):
    lanes, lane, first = [], 0, 0
    for _ in range(body.varint()):
        lane += body.varint()
        rows, error, flags = body.varint(), body.varint(), body.varint()
        lanes.append({"lane": lane, "first": first, "rows": rows, "clock_error_ns": error, "lossy": bool(flags & 1)})
        first += rows
    return lanes


def read_planes(data, rows):
    assert len(data) % rows == 0 and len(data) // rows <= 8
    planes = [data[p * rows : (p + 1) * rows] for p in range(len(data) // rows)]
    return [sum(plane[i] << (8 * p) for p, plane in enumerate(planes)) for i in range(rows)]


def swap(value):
    return int.from_bytes(value.to_bytes(8, "little"), "big")


def read_column(column_id, encoding, payload, header, lanes, columns):
    data, rows = Cursor(payload), header["rows"]
    if encoding == 0:
        return [unzigzag(data.varint())] * rows
    reference = columns[data.varint()] if encoding in (6, 7) else None
    dictionary = [unzigzag(data.varint()) for _ in range(data.varint())] if encoding == 4 else None
    residual = read_planes(payload[data.at :], rows)
    if encoding == 1:
        return [signed(r) for r in residual]
    if encoding == 2:
        return [unzigzag(r) for r in residual]
    if encoding == 4:
        return [dictionary[r] for r in residual]
    if encoding == 6:
        return [signed(reference[i] + unzigzag(r)) for i, r in enumerate(residual)]
    values = [0] * rows
    for lane in lanes:
        previous = header["min_time"] if column_id == 1 else 0
        for i in range(lane["first"], lane["first"] + lane["rows"]):
            if encoding == 5:
                values[i] = signed((previous & U64) ^ swap(residual[i]))
            else:
                values[i] = signed(previous + unzigzag(residual[i]))
            previous = values[i] + (reference[i] if encoding == 7 else 0)
    return values


def read_block(data):
    """The header, the lanes, {column id: values in lane order} and {column id: encoding}."""
    header, body_bytes, frame = read_header(data)
    body = Cursor(pyarrow.decompress(frame, decompressed_size=body_bytes, codec="zstd", asbytes=True))
    lanes, columns, encodings = read_lanes(body), {}, {}
    for _ in range(body.varint()):
        column_id, encoding = body.varint(), body.varint()
        payload = body.take(body.varint())
        columns[column_id] = read_column(column_id, encoding, payload, header, lanes, columns)
        encodings[column_id] = encoding
    assert body.done(), "bytes follow the last column"
    return {"header": header, "lanes": lanes, "columns": columns, "encodings": encodings}


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        json.dump(read_block(bytes.fromhex(file.read())), sys.stdout)
        print()
