# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
SUITE="a 30-day job replayed under a disk limit (--full: 450 rows of each second of it under 5 GB)"
Available() { HasFiles 'tests/unit/retention/replay_tool.cc'; }
Run() {
  LoadToolchain
  script/build release
  if [[ $STEPSCOPE_FULL = 1 ]]; then
    # So many rows that the store is full after two fifths: all of the second half, whose memory must be flat, is moving blobs.
    Check "30 days of 450 rows a second under 5 GB" build/tests/retention_replay --days 30 --step-seconds 1 --rows 450 --max-mb 4768 --progress
  else
    Check "30 days, thinned, under 64 MB" build/tests/retention_replay --days 30 --step-seconds 50 --rows 300 --max-mb 64
  fi
}
