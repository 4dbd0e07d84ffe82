# SPDX-License-Identifier: Apache-2.0
"""Listens where an agent looks for its daemon, and takes hello and ring file from each process that connects.

It never answers: what an agent has sent stays queued on the socket, and the ring files keep their records, so a test lets the
processes end and reads afterwards. Nothing waits, nothing runs in parallel. Layout: contract/hello.h.
"""

import array
import os
import shutil
import socket
import struct
import tempfile
from pathlib import Path

from ring_file import Session

HELLO_MAGIC = 0x314F4C4C45485353
HELLO_BYTES = 104


class Receiver:
    def __enter__(self):
        self._folder = tempfile.mkdtemp(prefix="ss-")  # short: a socket path has 107 bytes
        self.path = Path(self._folder) / "agent.sock"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self.path))
        self._listener.listen(64)
        return self

    def __exit__(self, *error):
        self._listener.close()
        shutil.rmtree(self._folder)

    def sessions(self):
        """One entry per session that connected so far, in order of connection."""
        self._listener.setblocking(False)
        found = {}
        while True:
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return list(found.values())
            with connection:
                session = _receive(connection)
            if session is not None:
                found.setdefault(session.identity, session)


def _receive(connection):
    connection.setblocking(False)
    descriptors = array.array("i")
    try:
        message, ancillary, _, _ = connection.recvmsg(8192, socket.CMSG_SPACE(4))
    except BlockingIOError:
        return None
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(content[:4])
    assert len(descriptors) == 1, "a hello carries exactly one descriptor"
    try:
        magic, version, _, identity, pid = struct.unpack_from("<QII16si", message)
        assert (magic, version) == (HELLO_MAGIC, 1)
        content = os.pread(descriptors[0], os.fstat(descriptors[0]).st_size, 0)
    finally:
        os.close(descriptors[0])
    facts_bytes = struct.unpack_from("<I", message, HELLO_BYTES - 4)[0]
    facts = message[HELLO_BYTES : HELLO_BYTES + facts_bytes].decode().split("\0")
    return Session(identity, pid, [fact for fact in facts if fact], content)
