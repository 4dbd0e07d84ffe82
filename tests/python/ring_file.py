# SPDX-License-Identifier: Apache-2.0
"""What a ring file says of its process: spans, marks, counters and facts. The records are read by
tests/golden/ring_reader.py; this was written from docs and contract/ring.h alone and shares no code with the agent or
the daemon."""

import struct
from dataclasses import dataclass, field
from typing import Optional

from ring_reader import read_records

RING_MAGIC = 0x31474E4952535353
DOMAINS = ("user", "step", "loader", "optimizer", "framework")


@dataclass
class Span:
    name: str
    number: Optional[int]
    domain: str
    thread: int
    begin: int
    end: Optional[int] = None
    parent: Optional["Span"] = None
    token: Optional[int] = None
    unbalanced: bool = False

    @property
    def path(self):
        return (self.parent.path if self.parent else ()) + (self.name,)


@dataclass
class Session:
    identity: bytes
    pid: int
    facts: list
    content: bytes = field(repr=False)

    def __post_init__(self):
        self.spans, self.marks, self.counters, self.info, self.windows, self.gil = [], [], [], {}, [], []
        self._tokens, self._ended = {}, {}
        magic, version, header_bytes = struct.unpack_from("<QII", self.content)
        assert (magic, version) == (RING_MAGIC, 1)
        slots, descriptor_bytes = struct.unpack_from("<II", self.content, 48)
        for slot in range(slots):
            self._read_ring(header_bytes + slot * descriptor_bytes)
        for token, end in self._ended.items():
            self._tokens[token].end = end

    def named(self, name):
        return [span for span in self.spans if span.name == name]

    def _read_ring(self, at):
        head, tail = struct.unpack_from("<Q", self.content, at)[0], struct.unpack_from("<Q", self.content, at + 64)[0]
        tid, data_offset, data_bytes = struct.unpack_from("<i4xQQ", self.content, at + 136)
        if head == tail:
            return
        data = self.content[data_offset : data_offset + data_bytes]
        begin, stack = tail % data_bytes, []
        for record in read_records((data + data)[begin : begin + head - tail]):
            self._add(record, tid, stack)

    def _add(self, record, tid, stack):
        kind, name, ticks = record["kind"], record.get("name", ""), record.get("ticks")
        if kind == "begin":
            span = self._begin(record, tid)
            span.parent = stack[-1] if stack else None
            stack.append(span)
        elif kind == "end":
            closed = stack.pop()
            while name and closed.name != name:
                closed.end = ticks
                closed = stack.pop()
            closed.end, closed.unbalanced = ticks, bool(name)
        elif kind == "token_begin":
            span = self._begin(record, tid)
            span.token = record["token"]
            span.number = record["number"] if record["has_number"] else None
            self._tokens[span.token] = span
        elif kind == "token_end":
            self._ended.setdefault(record["token"], ticks)
        elif kind == "mark":
            self.marks.append(name)
        elif kind == "counter":
            self.counters.append((name, record["value"]))
        elif kind == "info":
            self.info[name] = record["value"]
        elif kind == "window":
            self.windows.append("start" if record["number"] else "stop")
        elif kind == "gil":
            self.gil.append((record["begin"], record["end"]))

    def _begin(self, record, tid):
        span = Span(record["name"], record.get("number"), DOMAINS[record["domain"]], tid, record["ticks"])
        self.spans.append(span)
        return span
