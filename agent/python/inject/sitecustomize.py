# SPDX-License-Identifier: Apache-2.0
"""Python runs this at start-up when `stepscope run` put its folder on PYTHONPATH.

It makes `import stepscope`, `smppy` and `smprof` work where nothing of that name is installed, waits for the script to import
torch to add the hooks of stepscope._torch_hooks, and then runs the sitecustomize that this file hides, as if it had been found
first. sys.path stays as it is. Whatever goes wrong here is swallowed; what goes wrong in the hidden sitecustomize is left to
Python. Python 2 and 3.3 lack the import machinery this needs: there nothing is done.
"""

import os
import sys

_INJECT_DIR = os.path.dirname(os.path.abspath(__file__))
_PACKAGE_PARENT = os.path.dirname(_INJECT_DIR)
_STATE = "_stepscope_inject"  # in sys.modules: survives this module being replaced by the one it hides


class _PackageFinder(object):
    """Last on sys.meta_path: asked only for what nobody else has, so an installed module wins."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in ("stepscope", "smppy", "smprof"):
            return None
        from importlib.machinery import PathFinder

        return PathFinder.find_spec(name, [_PACKAGE_PARENT])


class _TorchWatcher(object):
    """First on sys.meta_path until torch has been imported; for any other name it costs one comparison."""

    def __init__(self):
        self._asking_others = False

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or self._asking_others:
            return None
        self._asking_others = True
        try:
            spec = self._ask_others(name, path, target)
        finally:
            self._asking_others = False
        try:
            self._run_after(spec)
        except Exception:
            pass
        return spec

    def _ask_others(self, name, path, target):
        for finder in list(sys.meta_path):
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None

    def _run_after(self, spec):
        """The loader stays the same object of the same type; only this one execution is seen."""
        if spec is None or spec.loader is None:
            return
        loader = spec.loader
        execute = loader.exec_module

        def exec_module(module):
            try:
                del loader.exec_module
            except AttributeError:
                pass
            execute(module)
            self._torch_is_there()

        loader.exec_module = exec_module

    def _torch_is_there(self):
        try:
            sys.meta_path.remove(self)
        except ValueError:
            pass
        try:
            _our_package("_torch_hooks").install()
        except Exception:
            pass


def _our_package(submodule):
    """Our package under its own name; under a private one if the user has another thing called `stepscope`."""
    import importlib
    import importlib.util

    spec = importlib.util.find_spec("stepscope")
    if _has(spec, submodule):
        return importlib.import_module("stepscope." + submodule)
    private = "_stepscope_of_run"
    if private not in sys.modules:
        folder = os.path.join(_PACKAGE_PARENT, "stepscope")
        spec = importlib.util.spec_from_file_location(
            private, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )
        module = importlib.util.module_from_spec(spec)
        sys.modules[private] = module
        spec.loader.exec_module(module)
    return importlib.import_module(private + "." + submodule)


def _has(spec, submodule):
    """Whether an installed package is ours too; its files are looked at, nothing of it is run."""
    folders = spec.submodule_search_locations if spec is not None else None
    return any(os.path.exists(os.path.join(folder, submodule + ".py")) for folder in folders or ())


def _install():
    sys.meta_path.append(_PackageFinder)
    sys.meta_path.insert(0, _TorchWatcher())


def _hidden_sitecustomize(already_run):
    """The next sitecustomize on the path that did not run yet, or None. A hidden one may itself look for the next and find us
    again: the list of those that ran keeps that from going round."""
    from importlib.machinery import PathFinder

    for entry in sys.path:
        if os.path.abspath(entry or ".") == _INJECT_DIR:
            continue
        spec = PathFinder.find_spec("sitecustomize", [entry])
        if spec is not None and spec.loader is not None and spec.origin not in already_run:
            already_run.append(spec.origin)
            return spec
    return None


def _run_hidden(already_run):
    try:
        spec = _hidden_sitecustomize(already_run)
        if spec is None:
            return
        from importlib.util import module_from_spec

        module = module_from_spec(spec)
    except Exception:
        return
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _main():
    state = sys.modules.get(_STATE)
    if state is None:
        state = type(sys)(_STATE)
        state.already_run = []
        sys.modules[_STATE] = state
        try:
            _install()
        except Exception:
            pass
    _run_hidden(state.already_run)


if sys.version_info >= (3, 4):
    _main()
