# SPDX-License-Identifier: Apache-2.0
"""A proxy before the S3 server that refuses part of an upload, as a full bucket does."""

import socket
import threading


class RefusingProxy:
    """Passes bytes on to the gateway but refuses the second piece of every multipart upload."""

    ANSWER = b"<Error><Code>AccessDenied</Code><Message>quota</Message></Error>"

    def __init__(self, gateway):
        self.gateway = gateway
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.gateway.port))
            threading.Thread(target=self.pass_on, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self.pass_on, args=(server, client, False), daemon=True).start()

    def pass_on(self, source, target, watched):
        try:
            while data := source.recv(1 << 16):
                if watched and data.startswith(b"PUT ") and b"partNumber=2" in data.split(b"\r\n", 1)[0]:
                    source.sendall(
                        b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/xml\r\nConnection: close\r\n"
                        + f"Content-Length: {len(self.ANSWER)}\r\n\r\n".encode()
                        + self.ANSWER
                    )
                    while source.recv(1 << 16):  # drained, so that the answer is not lost in a reset
                        pass
                    break
                target.sendall(data)
        except OSError:
            pass
        source.close()
        target.close()
