# SPDX-License-Identifier: Apache-2.0
"""The sitecustomize of `stepscope run`: helpful when it can be, and otherwise not there at all."""


def write_module(folder, name, text):
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(text)
    return folder


def test_the_package_can_be_imported_and_sys_path_is_untouched(scripts):
    done = scripts.run(
        """
        import sys
        import stepscope as ss
        assert ss.annotate("x").name == "x"
        print(ss.__file__)
        print([entry for entry in sys.path if entry.rstrip("/").endswith("/python")])
        """,
        path=[scripts.python_dir / "inject"],
    )
    assert done.stdout.splitlines() == [str(scripts.python_dir / "stepscope" / "__init__.py"), "[]"]
    assert done.stderr == ""


def test_the_users_own_stepscope_wins(scripts, tmp_path):
    own = write_module(tmp_path / "own", "stepscope", "MINE = True\n")
    scripts.run("import stepscope; assert stepscope.MINE", path=[scripts.python_dir / "inject", own])
    scripts.run("import stepscope; assert stepscope.MINE", path=[own, scripts.python_dir / "inject"])


def test_the_hidden_sitecustomize_runs_and_is_the_one_users_see(scripts, tmp_path):
    hidden = write_module(
        tmp_path / "hidden", "sitecustomize", "import sys\nsys.ran = getattr(sys, 'ran', 0) + 1\nHIDDEN = True\n"
    )
    scripts.run(
        """
        import sys, sitecustomize, stepscope
        assert sys.ran == 1
        assert sitecustomize.HIDDEN and sitecustomize is sys.modules["sitecustomize"]
        """,
        path=[scripts.python_dir / "inject", hidden],
    )


def test_hidden_ones_that_chain_themselves_end_in_no_circle(scripts, tmp_path):
    chaining = """
import sys, os
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
sys.ran = getattr(sys, 'ran', []) + [__file__]
here = os.path.dirname(os.path.abspath(__file__))
spec = PathFinder.find_spec("sitecustomize", [entry for entry in sys.path if os.path.abspath(entry) != here])
if spec is not None and len(sys.ran) < 20:
    spec.loader.exec_module(module_from_spec(spec))
"""
    second = write_module(tmp_path / "second", "sitecustomize", chaining)
    last = write_module(tmp_path / "last", "sitecustomize", "import sys\nsys.ran.append(__file__)\n")
    done = scripts.run("import sys; print(len(sys.ran), sys.ran)", path=[scripts.python_dir / "inject", second, last])
    assert done.stdout.startswith("2 ")


def test_an_error_in_the_hidden_one_looks_as_it_would_without_us(scripts, tmp_path):
    broken = write_module(tmp_path / "broken", "sitecustomize", "raise ValueError('mine')\n")
    alone = scripts.run("print('ran')", path=[broken])
    chained = scripts.run("print('ran')", path=[scripts.python_dir / "inject", broken])
    assert (alone.stdout, alone.stderr) == (chained.stdout, chained.stderr)
    assert "ValueError" in chained.stderr


def test_a_broken_package_next_to_the_hook_harms_no_script(scripts, tmp_path):
    tree = tmp_path / "tree"
    write_module(tree, "nothing", "")
    inject = write_module(
        tree / "inject", "sitecustomize", (scripts.python_dir / "inject" / "sitecustomize.py").read_text()
    )
    write_module(tree, "stepscope", "raise RuntimeError('broken package')\n")
    fake = write_module(tmp_path / "fake", "torch", "OPTIM = 1\n")
    done = scripts.run("import torch; assert torch.OPTIM == 1", path=[inject, fake])
    assert done.stderr == ""


def test_the_import_watcher_leaves_after_torch_and_touches_nothing_of_its_spec(scripts, tmp_path):
    fake = write_module(tmp_path / "fake", "torch", "LOADED = True\n")
    done = scripts.run(
        """
        import importlib.util, sys
        before = len(sys.meta_path)
        assert importlib.util.find_spec("torch") is not None
        assert len(sys.meta_path) == before, "looking is not importing"
        import torch
        assert torch.LOADED
        assert len(sys.meta_path) == before - 1
        assert "exec_module" not in vars(torch.__spec__.loader)
        assert torch.__loader__ is torch.__spec__.loader
        """,
        path=[scripts.python_dir / "inject", fake],
    )
    assert done.stderr == ""


def test_a_torch_that_fails_to_import_fails_as_without_us(scripts, tmp_path):
    fake = write_module(tmp_path / "fake", "torch", "raise ImportError('no libtorch')\n")
    done = scripts.run("import torch", path=[scripts.python_dir / "inject", fake], expect=1)
    assert done.stderr.rstrip().endswith("ImportError: no libtorch")


def test_isolated_interpreters_are_left_alone(scripts):
    done = scripts.run("import sys; print(len(sys.meta_path))", path=[scripts.python_dir / "inject"], arguments=["-I"])
    plain = scripts.run("import sys; print(len(sys.meta_path))", path=[], arguments=["-I"])
    assert done.stdout == plain.stdout
