# SPDX-License-Identifier: Apache-2.0
"""Answers every call as grpc-js 1.14 was recorded to refuse one: names and texts Huffman-coded, the status in the only HEADERS
frame, which ends its half of the stream; no RST_STREAM, the connection stays. Prints its port; arguments are ignored."""

import socket

SETTINGS = bytes.fromhex("000000040000000000")
SETTINGS_ACKNOWLEDGED = bytes.fromhex("000000040100000000")
STATUS_16 = bytes.fromhex(
    "00005f010500000001"
    "208800889acac8b21234da8f02313600899acac8b5254207317f984ce642a20547a88554403215102dabad47f152a204"
    "e5b0bf0f10901d75d0620d263d4c4d6564ff75d8749f0f1296e4593e940094be52282009c5000b8dbf7190298b46ff"
)

listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
kept = []
while True:
    connection, _ = listener.accept()
    kept.append(connection)
    connection.recv(4096)
    connection.sendall(SETTINGS + SETTINGS_ACKNOWLEDGED + STATUS_16)
