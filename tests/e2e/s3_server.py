# SPDX-License-Identifier: Apache-2.0
"""versitygw, a real S3 server that checks signatures, on loopback over a folder of the test."""

import os
import pathlib
import socket
import subprocess
import time

import pyarrow.fs

ACCESS_KEY = "test"
SECRET_KEY = "open-sesame"


class S3Server:
    """One bucket, "bucket". It cannot bind port 0, so a free port is taken and asked for again after a restart."""

    bucket = "bucket"
    env = {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }

    def __init__(self, directory):
        self.data = directory / "s3"
        (self.data / self.bucket).mkdir(parents=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.process = None

    def start(self):
        self.process = subprocess.Popen(
            ["versitygw", "--port", f"127.0.0.1:{self.port}", "--quiet", "posix", str(self.data)],
            env={**os.environ, "ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return self
            except OSError:
                assert self.process.poll() is None and time.monotonic() < deadline, "versitygw does not start"
                time.sleep(0.02)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)

    def settings(self, bucket=None):
        """What a daemon is told to upload here."""
        return (
            f"upload.url=s3://{bucket or self.bucket}/t",
            f"upload.endpoint={self.endpoint}",
            "upload.region=us-east-1",
            "upload.jitter_ms=0",
        )

    def file_system(self):
        return pyarrow.fs.S3FileSystem(
            access_key=ACCESS_KEY, secret_key=SECRET_KEY, endpoint_override=self.endpoint, region="us-east-1"
        )

    def objects(self, suffix):
        """Paths of the whole objects; os.walk does not mind folders that go while it walks."""
        found = []
        for folder, below, files in os.walk(self.data / self.bucket):
            if ".sgwtmp" in below:
                below.remove(".sgwtmp")
            found += [pathlib.Path(folder, name) for name in files if name.endswith(suffix)]
        return sorted(found)

    def open_uploads(self):
        """Folders of multipart uploads that nobody has completed or aborted. One that the server was killed in the middle of
        completing keeps its name of that moment, and ListMultipartUploads tells nobody of it."""
        return [
            pathlib.Path(folder, name)
            for folder, below, _ in os.walk(self.data / self.bucket)
            for name in below
            if pathlib.Path(folder).parent.name == "multipart" and not name.endswith(".inprogress")
        ]
