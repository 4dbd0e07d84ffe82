# SPDX-License-Identifier: Apache-2.0
"""Reads a ring file into spans, marks, counters and facts: written from docs and contract/ring.h alone, shares no code with
the agent or the daemon."""

import struct
from dataclasses import dataclass, field
from typing import Optional

RING_MAGIC = 0x31474E4952535353
PAD, NAME, BEGIN, BEGIN_N, END, TOKEN_BEGIN, TOKEN_END, MARK, COUNTER, INFO, WINDOW, LOST, THREAD, ANCHOR, GIL = range(
    1, 16
)
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
        self.lost = 0
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
        names, stack, position = {}, [], tail
        while position < head:
            record_at = data_offset + position % data_bytes
            kind, size, name = struct.unpack_from("<HHI", self.content, record_at)
            assert size >= 8 and size % 8 == 0, f"record of {size} bytes at {position}"
            self._record(kind, names.get(name, ("", "user")), record_at, tid, names, stack)
            position += size
        assert position == head

    def _record(self, kind, name, at, tid, names, stack):
        text, domain = name
        ticks, number = struct.unpack_from("<Qq", self.content, at + 8)
        if kind == NAME:
            name_id = struct.unpack_from("<I", self.content, at + 4)[0]
            domain_id, _, length = struct.unpack_from("<HHI", self.content, at + 8)
            names[name_id] = (self.content[at + 16 : at + 16 + length].decode(), DOMAINS[domain_id])
        elif kind in (BEGIN, BEGIN_N):
            span = Span(
                text, number if kind == BEGIN_N else None, domain, tid, ticks, parent=stack[-1] if stack else None
            )
            stack.append(span)
            self.spans.append(span)
        elif kind == END:
            closed = stack.pop()
            while text and closed.name != text:
                closed.end = ticks
                closed = stack.pop()
            closed.end, closed.unbalanced = ticks, bool(text)
        elif kind == TOKEN_BEGIN:
            token, number, has_number = struct.unpack_from("<QqI", self.content, at + 16)
            span = Span(text, number if has_number else None, domain, tid, ticks, token=token)
            self._tokens[token] = span
            self.spans.append(span)
        elif kind == TOKEN_END:
            self._ended.setdefault(struct.unpack_from("<Q", self.content, at + 16)[0], ticks)
        elif kind == MARK:
            self.marks.append(text)
        elif kind == COUNTER:
            self.counters.append((text, struct.unpack_from("<d", self.content, at + 16)[0]))
        elif kind == INFO:
            length = struct.unpack_from("<I", self.content, at + 16)[0]
            self.info[text] = self.content[at + 24 : at + 24 + length].decode()
        elif kind == WINDOW:
            self.windows.append("start" if number else "stop")
        elif kind == LOST:
            self.lost += struct.unpack_from("<Q", self.content, at + 8)[0]
        elif kind == GIL:
            begin, end = struct.unpack_from("<QQ", self.content, at + 16)
            self.gil.append((begin, end))
