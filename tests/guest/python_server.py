# SPDX-License-Identifier: Apache-2.0
"""AgentService on grpc-python: `python_server.py FOLDER NONCE MAX_AGE_MS [STATUS…]`, stubs on PYTHONPATH. Prints its port.

A ring is kept in the file RING-GENERATION of FOLDER; a stream with another nonce (hexadecimal) is refused; a connection older
than MAX_AGE_MS is sent away with GOAWAY (0: never). The first streams end at once with these statuses, one each."""

import pathlib
import sys
import threading
from concurrent import futures

import grpc
from stepscope.v1 import agent_pb2, agent_pb2_grpc

folder, nonce, max_age_ms = pathlib.Path(sys.argv[1]), bytes.fromhex(sys.argv[2]), int(sys.argv[3])
refusals = iter([grpc.StatusCode[name] for name in sys.argv[4:]])


class AgentService(agent_pb2_grpc.AgentServiceServicer):
    lock = threading.Lock()

    def append(self, request):
        path = folder / f"{request.ring}-{request.generation}"
        with self.lock, path.open("ab") as file:
            stored = file.tell()
            if getattr(request, "from") > stored:
                return None
            file.write(request.data[stored - getattr(request, "from") :])
            return file.tell()

    def Push(self, requests, context):
        if dict(context.invocation_metadata()).get("stepscope-nonce-bin") != nonce:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "this nonce is unknown here")
        if refusal := next(refusals, None):
            context.abort(refusal, "as the test wants it")
        for request in requests:
            position = self.append(request)
            if position is None:
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, "a hole")
            stored = agent_pb2.RingPosition(ring=request.ring, generation=request.generation, position=position)
            yield agent_pb2.PushReply(stored=[stored])


options = [("grpc.max_connection_age_ms", max_age_ms), ("grpc.max_connection_age_grace_ms", 1000)] if max_age_ms else []
server = grpc.server(futures.ThreadPoolExecutor(8), options=options)
agent_pb2_grpc.add_AgentServiceServicer_to_server(AgentService(), server)
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
server.wait_for_termination()
