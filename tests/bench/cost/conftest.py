# SPDX-License-Identifier: Apache-2.0
"""Tests of cost use the programs and modules of script/bench."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
