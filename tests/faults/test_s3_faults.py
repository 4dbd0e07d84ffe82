# SPDX-License-Identifier: Apache-2.0
"""The S3 server or the uploading daemon dies, hangs or comes back in the middle of an upload: at the end every row is in the
data set once, the manifest is complete and no multipart upload is left open."""

import os
import random
import signal
import time

import pytest
from conftest import FULL
from s3_server import S3Server
from upload_rows import (
    PART_BYTES,
    TOOL,
    bulky_rows,
    check_exactly_once,
    load,
    start_upload,
    upload,
    wait_until,
)

REQUEST_TIMEOUT = 5  # seconds, of one request to the storage
MOMENTS = {
    "first multipart": lambda s3: s3.open_uploads(),
    "first object": lambda s3: len(s3.objects(".parquet")) >= 1,
    "second object": lambda s3: len(s3.objects(".parquet")) >= 2,
    "first manifest": lambda s3: len(s3.objects(".json")) >= 1,
    "last part": lambda s3: len(s3.objects(".parquet")) >= 3,
}
GOES_ON = ("--wait", 240, "--retry-ms", 200, "--part-bytes", PART_BYTES)

pytestmark = pytest.mark.skipif(not TOOL.exists(), reason="build target upload_tool first")


@pytest.fixture
def gateway(tmp_path):
    server = S3Server(tmp_path).start()
    yield server
    server.process.send_signal(signal.SIGCONT)
    server.kill()


@pytest.fixture(scope="module")
def bulky(tmp_path_factory):
    return bulky_rows(tmp_path_factory.mktemp("bulky"))


def uploading(gateway, rows, store, moment, *arguments):
    """An upload that has just come to `moment`."""
    load(rows, store)
    process = start_upload(gateway.endpoint, rows, store, *arguments)
    wait_until(lambda: MOMENTS[moment](gateway), process)
    return process


@pytest.mark.parametrize("moment", list(MOMENTS) if FULL else ["first multipart", "first manifest"])
def test_a_server_that_is_killed_and_comes_back_gets_everything_once(gateway, bulky, tmp_path, moment):
    process = uploading(gateway, bulky, tmp_path / "store", moment, *GOES_ON)
    gateway.kill()
    time.sleep(1)
    gateway.start()
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    check_exactly_once(gateway, bulky)


@pytest.mark.parametrize("moment", list(MOMENTS) if FULL else ["first object"])
def test_a_server_that_hangs_and_goes_on_gets_everything_once(gateway, bulky, tmp_path, moment):
    """Requests it took before it was stopped are carried out after the daemon has given them up."""
    process = uploading(gateway, bulky, tmp_path / "store", moment, *GOES_ON)
    gateway.process.send_signal(signal.SIGSTOP)
    time.sleep(3 * REQUEST_TIMEOUT)
    gateway.process.send_signal(signal.SIGCONT)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    check_exactly_once(gateway, bulky)


@pytest.mark.parametrize("moment", list(MOMENTS) if FULL else ["first multipart", "second object"])
def test_a_killed_daemon_goes_on_without_doubling_rows(gateway, bulky, tmp_path, moment):
    arguments = ("--part-bytes", PART_BYTES)
    process = uploading(gateway, bulky, tmp_path / "store", moment, *arguments)
    process.kill()
    process.wait()
    status, output = upload(gateway, bulky, tmp_path / "store", *arguments)
    assert status == 0, output
    check_exactly_once(gateway, bulky)


@pytest.mark.full
def test_twenty_kills_at_random_moments_of_one_upload(gateway, bulky, tmp_path):
    dice = random.Random(3)
    load(bulky, tmp_path / "store")
    for _ in range(20):
        process = start_upload(gateway.endpoint, bulky, tmp_path / "store", "--part-bytes", PART_BYTES)
        time.sleep(dice.uniform(0.02, 1.0))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    status, output = upload(gateway, bulky, tmp_path / "store", "--part-bytes", PART_BYTES)
    assert status == 0, output
    check_exactly_once(gateway, bulky)
