# SPDX-License-Identifier: Apache-2.0
"""The same rows as Parquet and as Arrow IPC by pyarrow, one thread: bytes and CPU ns per row, encode and decode.

Rows are in lane order, as in our blocks, one record batch or row group of 65,536; integers are delta-coded in Parquet, as in the
files we upload. Names and lanes are the small integers they are in blocks.
"""

import io
import time

import numpy
import pyarrow
import pyarrow.parquet

BLOCK_ROWS = 65536


def lane_ordered(path, names):
    """The file of `codec_bench rows` as a table sorted by lane, then as it came."""
    columns = numpy.fromfile(path, dtype=numpy.int64).reshape(len(names), -1)
    order = numpy.argsort(columns[0], kind="stable")
    return pyarrow.table({name: column[order] for name, column in zip(names, columns)})


def parquet(table):
    out = io.BytesIO()
    pyarrow.parquet.write_table(
        table,
        out,
        compression="zstd",
        compression_level=1,
        use_dictionary=False,
        column_encoding=dict.fromkeys(table.column_names, "DELTA_BINARY_PACKED"),
        row_group_size=BLOCK_ROWS,
        write_statistics=False,
    )
    return out.getvalue()


def read_parquet(data):
    return pyarrow.parquet.read_table(io.BytesIO(data), use_threads=False)


def arrow_ipc(table):
    out = io.BytesIO()
    options = pyarrow.ipc.IpcWriteOptions(compression=pyarrow.Codec("zstd", compression_level=1), use_threads=False)
    with pyarrow.ipc.new_stream(out, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=BLOCK_ROWS)
    return out.getvalue()


def read_arrow_ipc(data):
    return pyarrow.ipc.open_stream(io.BytesIO(data), options=pyarrow.ipc.IpcReadOptions(use_threads=False)).read_all()


def code_bits(values):
    """Bits a value of an ideal code of the column that knows nothing of its neighbours: of the values themselves where they
    repeat, else of their magnitudes, the bits below the highest as they are."""
    zigzag = (values << 1) ^ (values >> 63)
    bits = numpy.ceil(numpy.log2(zigzag.astype(numpy.float64) + 1)).astype(numpy.int64)
    by_magnitude = entropy(bits) + numpy.maximum(bits - 1, 0).mean()
    return min(by_magnitude, entropy(values)) if len(numpy.unique(values)) < len(values) / 8 else by_magnitude


def entropy(values):
    share = numpy.unique(values, return_counts=True)[1] / len(values)
    return float(-(share * numpy.log2(share)).sum())


def ideal_bytes(table):
    """Bytes a row of such codes, each column taken as it is, as the step from the row before, or as the distance from the column
    that suits it best; the least of these."""
    columns = [column.to_numpy() for column in table.columns]
    total = 0.0
    for at, column in enumerate(columns):
        steps = numpy.diff(column, prepend=column[:1])
        others = [column - other for other in columns[1:at]]
        total += min(code_bits(residual) for residual in [column, steps, *others])
    return total / 8


FORMATS = {"Parquet, zstd 1": (parquet, read_parquet), "Arrow IPC, zstd 1": (arrow_ipc, read_arrow_ipc)}


def measure(table):
    """{format: {"bytes", "encode_ns", "decode_ns"} per row}"""
    pyarrow.set_cpu_count(1)
    pyarrow.set_io_thread_count(1)
    seen = {}
    for name, (encode, decode) in FORMATS.items():
        begun = time.process_time_ns()
        data = encode(table)
        encoded = time.process_time_ns()
        rows = decode(data).num_rows
        decoded = time.process_time_ns()
        if rows != table.num_rows:
            raise RuntimeError(f"{name} gave back {rows} of {table.num_rows} rows")
        seen[name] = {
            "bytes": len(data) / rows,
            "encode_ns": (encoded - begun) / rows,
            "decode_ns": (decoded - encoded) / rows,
        }
    return seen
