# SPDX-License-Identifier: Apache-2.0
"""Real work with one library in a process that the agent is a guest in, annotated before and after.

library_work.py LIBRARY agent_first|library_first"""

import importlib
import sys
import tempfile

MODULES = {
    "numpy": "numpy",
    "pyarrow": "pyarrow",
    "grpcio": "grpc",
    "duckdb": "duckdb",
    "protobuf": "google.protobuf",
    "torch": "torch",
    "tensorflow": "tensorflow",
    "ray": "ray",
    "jax": "jax",
    "onnxruntime": "onnxruntime",
    "opencv": "cv2",
    "xgboost": "xgboost",
    "lightgbm": "lightgbm",
    "scikit-learn": "sklearn",
    "pandas": "pandas",
}


def numpy_work():
    import numpy

    assert numpy.linalg.inv(numpy.eye(200) * 2)[7, 7] == 0.5


def pyarrow_work():
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"n": list(range(10_000))})
    with tempfile.NamedTemporaryFile() as file:
        pyarrow.parquet.write_table(table, file.name)
        assert pyarrow.parquet.read_table(file.name).num_rows == 10_000


def grpcio_work():
    """A server and its client, both in this process."""
    from concurrent import futures

    import grpc

    handler = grpc.stream_stream_rpc_method_handler(lambda requests, context: requests)
    server = grpc.server(futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("Echo", {"Say": handler})])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        answers = channel.stream_stream("/Echo/Say")(iter([b"one", b"two" * 50_000]))
        assert [len(answer) for answer in answers] == [3, 150_000]
    server.stop(0).wait()


def duckdb_work():
    import duckdb

    assert duckdb.sql("select sum(range) from range(100000)").fetchall() == [(4_999_950_000,)]


def protobuf_work():
    from google.protobuf import struct_pb2

    message = struct_pb2.Struct()
    message.update({"name": "stepscope", "list": [1, 2, 3]})
    assert struct_pb2.Struct.FromString(message.SerializeToString()) == message


def torch_work():
    import torch

    layer = torch.nn.Linear(64, 8)
    layer(torch.ones(4, 64)).sum().backward()
    assert layer.weight.grad is not None


def tensorflow_work():
    import tensorflow

    with tensorflow.GradientTape() as tape:
        weight = tensorflow.Variable([[2.0]])
        loss = tensorflow.reduce_sum(tensorflow.matmul(weight, weight))
    assert float(tape.gradient(loss, weight)[0, 0]) == 4.0


def ray_work():
    """Imports its own gRPC core and its scheduler's messages; a cluster of it would be processes of their own."""
    import ray
    from ray._raylet import JobID

    assert not ray.is_initialized() and JobID.from_int(7).int() == 7


def jax_work():
    import jax

    assert float(jax.jit(jax.grad(lambda x: x * x))(3.0)) == 6.0


def onnxruntime_work():
    """Runs a model of one node, Y = X + X, spelled out as the bytes of its message."""
    import numpy
    import onnxruntime

    def field(number, content):
        return bytes([number << 3 | 2, len(content)]) + content

    shape = field(1, bytes([8, 4]))
    tensor = field(1, bytes([8, 1]) + field(2, shape))
    node = field(1, b"X") + field(1, b"X") + field(2, b"Y") + field(4, b"Add")
    value = {name: field(1, name) + field(2, tensor) for name in (b"X", b"Y")}
    graph = field(1, node) + field(2, b"g") + field(11, value[b"X"]) + field(12, value[b"Y"])
    model = bytes([8, 8]) + field(7, graph) + field(8, bytes([16, 13]))
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    assert session.run(None, {"X": numpy.ones(4, numpy.float32)})[0].tolist() == [2.0] * 4


def opencv_work():
    import cv2
    import numpy

    assert cv2.resize(numpy.ones((64, 64, 3), numpy.uint8), (32, 16)).shape == (16, 32, 3)


def xgboost_work():
    import numpy
    import xgboost

    data = xgboost.DMatrix(numpy.arange(200.0).reshape(100, 2), label=numpy.arange(100) % 2)
    assert len(xgboost.train({"nthread": 2}, data, num_boost_round=3).predict(data)) == 100


def lightgbm_work():
    import lightgbm
    import numpy

    data = lightgbm.Dataset(numpy.arange(2000.0).reshape(1000, 2), label=numpy.arange(1000) % 2)
    model = lightgbm.train({"verbose": -1, "num_threads": 2}, data, num_boost_round=3)
    assert len(model.predict(numpy.ones((5, 2)))) == 5


def scikit_learn_work():
    from sklearn.cluster import KMeans

    assert KMeans(2, n_init=1).fit([[0.0], [0.1], [9.0], [9.1]]).inertia_ < 1


def pandas_work():
    import pandas

    assert pandas.DataFrame({"a": [1, 1, 2], "b": [1, 2, 3]}).groupby("a").b.sum().tolist() == [3, 3]


def main(library, order):
    if order == "library_first":
        importlib.import_module(MODULES[library])
    import stepscope as ss

    with ss.annotate(f"before {library} {order}"):
        assert ss.state() == "recording", ss.state()
    work = globals()[library.replace("-", "_") + "_work"]
    for _ in range(2):
        with ss.annotate(f"work {library} {order}"):
            work()
    with ss.annotate(f"after {library} {order}"):
        pass
    assert ss.flush(20), ss.state()
    assert ss.lost() == 0


if __name__ == "__main__":
    main(*sys.argv[1:])
