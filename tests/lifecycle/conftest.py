# SPDX-License-Identifier: Apache-2.0
"""One daemon for all tests of a file: it must survive each of them."""

import pytest
from recorded_twice import Recorder


@pytest.fixture(scope="module")
def recorder():
    one = Recorder()
    yield one
    assert one.daemon.process.poll() is None, "the daemon ended"
    one.stop()
