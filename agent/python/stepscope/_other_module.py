# SPDX-License-Identifier: Apache-2.0
"""Lets an installed module keep its name: ours of the same name, found first, hands over to it."""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_handing_over = set()  # the other one may be a second copy of ours, which would hand back


def hand_over(name, file):
    """Loads the module `name` that Python finds without the folder of `file`, in place of the one being imported from there.
    Returns whether there is one; what it raises is raised."""
    if name in _handing_over:
        return False
    spec = _find_other(name, file)
    if spec is None:
        return False
    _handing_over.add(name)
    try:
        module = module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    finally:
        _handing_over.discard(name)
    return True


def _find_other(name, file):
    ours = os.path.dirname(os.path.dirname(os.path.realpath(file)))
    path = [entry for entry in sys.path if os.path.realpath(entry or ".") != ours]
    for finder in sys.meta_path:
        if not hasattr(finder, "find_spec"):
            continue
        spec = finder.find_spec(name, path if finder is PathFinder else None)
        if spec is not None and spec.has_location and os.path.realpath(spec.origin) != os.path.realpath(file):
            return spec
    return None
