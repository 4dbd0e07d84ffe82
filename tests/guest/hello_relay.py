# SPDX-License-Identifier: Apache-2.0
"""The daemon's front door before any gRPC server: takes the hello of an agent, answers it with what the server has stored, then
joins the agent's socket with a connection to that server. From there on the server has the agent's own bytes, and none of ours.
Layouts: contract/hello.h, contract/ring.h. A server keeps each ring in a file RING-GENERATION of its folder."""

import array
import contextlib
import os
import socket
import struct
import threading

HELLO_MAGIC = 0x314F4C4C45485353
REPLY_MAGIC = 0x31594C5045525353
HELLO_OK = 0
NONCE = bytes(range(240, 256))  # its base64 has both of the characters that are no letter and no digit
HEADER_BYTES, DESCRIPTOR_BYTES, SLOTS = 8192, 256, 224


class HelloRelay:
    """with HelloRelay(PATH, FOLDER) as relay: relay.port = the server's; None: connections are closed after the hello."""

    def __init__(self, path, folder):
        self.path, self.folder = str(path), folder
        self.port = None
        self.hellos = 0
        self.ring_file = None  # descriptor, of the last hello

    def __enter__(self):
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen(16)
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        if self.ring_file is not None:
            os.close(self.ring_file)

    def rings(self):
        """{(ring, generation): its bytes as they lie in the ring file}, of rings that never began a second lap."""
        found = {}
        for slot in range(SLOTS):
            at = HEADER_BYTES + slot * DESCRIPTOR_BYTES
            descriptor = os.pread(self.ring_file, DESCRIPTOR_BYTES, at)
            head = struct.unpack_from("<Q", descriptor)[0]
            generation = struct.unpack_from("<I", descriptor, 132)[0]
            offset, capacity = struct.unpack_from("<QQ", descriptor, 144)
            assert head <= capacity, "the test records less than a lap"
            if head:
                found[slot, generation] = os.pread(self.ring_file, head, offset)
        return found

    def _accept(self):
        while True:
            try:
                agent, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._greet, args=(agent,), daemon=True).start()

    def _greet(self, agent):
        message, ancillary, _, _ = agent.recvmsg(8192, socket.CMSG_SPACE(4))
        if struct.unpack_from("<Q", message)[0] != HELLO_MAGIC or not ancillary or self.port is None:
            return agent.close()
        if self.ring_file is not None:
            os.close(self.ring_file)
        self.ring_file = array.array("i", ancillary[0][2][:4])[0]
        self.hellos += 1
        try:
            server = socket.create_connection(("127.0.0.1", self.port))
        except OSError:
            return agent.close()
        stored = [(*map(int, path.name.split("-")), path.stat().st_size) for path in sorted(self.folder.glob("*-*"))]
        reply = struct.pack("<QII16sII", REPLY_MAGIC, 1, HELLO_OK, NONCE, len(stored), 0)
        agent.sendall(reply + b"".join(struct.pack("<IIQ", *position) for position in stored))
        for source, sink in ((agent, server), (server, agent)):
            threading.Thread(target=_pump, args=(source, sink), daemon=True).start()


def _pump(source, sink):
    how = socket.SHUT_WR
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
    except OSError:
        how = socket.SHUT_RDWR  # close() would wait for the other direction's recv()
    with contextlib.suppress(OSError):
        sink.shutdown(how)
