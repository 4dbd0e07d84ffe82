# SPDX-License-Identifier: Apache-2.0
"""The scripts: they lint, say what they do, and script/test counts and judges honestly."""

import os
import re
import subprocess
import sys

import pytest
from tree import ROOT, all_files, is_shell, text_of

sys.path.insert(0, str(ROOT / "script"))
import test_summary

JUNIT = '<testsuite><testcase name="{name}" classname="tests.e2e.test_gpu">{inner}</testcase></testsuite>'
SKIP = '<skipped type="pytest.skip" message="no GPU"/>'


def run(*command, **environment):
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )


def test_shell_scripts_pass_shellcheck():
    scripts = [name for name in all_files() if is_shell(name)]
    assert scripts
    result = run("shellcheck", "-x", *scripts)
    assert result.returncode == 0, result.stdout


def test_scripts_with_a_shebang_are_executable_and_open_with_their_purpose():
    for name in all_files():
        text = text_of(name) or ""
        if text.startswith("#!"):
            assert os.access(ROOT / name, os.X_OK), f"{name} has a shebang and no execute bit"
            assert re.match(r"#!/usr/bin/env (bash|python3)\n# SPDX[^\n]*\n(# |\"\"\")", text), (
                f"{name} does not say what it is for"
            )


def test_second_bootstrap_takes_less_than_two_seconds_of_cpu():
    import resource

    def children_cpu():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    begun = children_cpu()
    result = run("script/bootstrap", "--quiet")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert children_cpu() - begun < 2


@pytest.mark.parametrize("script", ["bootstrap", "test", "format"])
def test_an_unknown_argument_is_named(script):
    result = run(f"script/{script}", "--no-such-option")
    assert result.returncode == 1
    assert "--no-such-option" in result.stderr and "usage:" in result.stderr


def test_an_unknown_suite_is_named_and_the_known_ones_are_listed():
    result = run("script/test", "no-such-suite")
    assert result.returncode == 1
    assert "no-such-suite" in result.stderr and "house" in result.stderr


@pytest.mark.parametrize("lock", ["python-tools.txt", "python-torch.txt", "python-go.txt", "python-peers.txt"])
def test_python_locks_pin_every_package_once(lock):
    lines = [line for line in text_of(f"locks/{lock}").splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][\w.]*", line) for line in lines), lines
    names = [line.split("==")[0].lower() for line in lines]
    assert len(names) == len(set(names))


def test_debian_locks_list_every_package_once():
    text = text_of("locks/apt.txt") + text_of("locks/apt-full.txt")
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    assert all(words[1:] in ([], ["first"]) for words in lines)
    assert len({words[0] for words in lines}) == len(lines)


def test_go_lock_names_versions():
    lines = [line for line in text_of("locks/go-tools.txt").splitlines() if not line.startswith("#")]
    assert lines and all(re.fullmatch(r"[\w./-]+@v\d+\.\d+\.\d+", line) for line in lines)


def test_expected_skips_are_well_formed_and_name_known_suites():
    suites = {re.sub(r"^\d+-|\.sh$", "", path.name) for path in (ROOT / "script/suites").iterdir()}
    assert {rule.suite for rule in test_summary.read_expected_skips(ROOT / "tests/expected_skips")} <= suites


def test_expected_skip_without_a_reason_is_refused(tmp_path):
    (tmp_path / "skips").write_text("e2e tests/e2e/test_gpu::test_x\n")
    with pytest.raises(SystemExit, match="skips:1"):
        test_summary.read_expected_skips(tmp_path / "skips")


def summarise(tmp_path, monkeypatch, inner="", status=0, skips="", ci="true", report=True):
    monkeypatch.setenv("CI", ci)
    suite = tmp_path / "results" / "e2e"
    suite.mkdir(parents=True)
    (suite / "status").write_text(f"{status} 1.5\n")
    if report:
        (suite / "pytest.xml").write_text(JUNIT.format(name="test_x", inner=inner))
    (tmp_path / "skips").write_text(skips)
    return test_summary.main(tmp_path / "results", tmp_path / "skips")


def test_a_pass_is_counted(tmp_path, monkeypatch, capsys):
    assert summarise(tmp_path, monkeypatch) == 0
    assert capsys.readouterr().out.endswith("\n1 passed, 0 failed, 0 skipped\n")


def test_a_failure_fails_the_run(tmp_path, monkeypatch, capsys):
    assert summarise(tmp_path, monkeypatch, inner='<failure message="assert 1 == 2"/>', status=1) == 1
    assert capsys.readouterr().out.endswith("\n0 passed, 1 failed, 0 skipped\n")


def test_an_unlisted_skip_fails_in_ci_only(tmp_path, monkeypatch, capsys):
    assert summarise(tmp_path / "ci", monkeypatch, inner=SKIP) == 1
    assert capsys.readouterr().out.endswith("\n0 passed, 1 failed, 0 skipped\n")
    summarise(tmp_path / "desk", monkeypatch, inner=SKIP, ci="")
    assert capsys.readouterr().out.endswith("\n0 passed, 0 failed, 1 skipped\n")


def test_a_listed_skip_is_only_counted(tmp_path, monkeypatch, capsys):
    summarise(tmp_path, monkeypatch, inner=SKIP, skips="e2e tests/e2e/test_gpu::test_* # no GPU on this machine\n")
    assert capsys.readouterr().out.endswith("\n0 passed, 0 failed, 1 skipped\n")


def test_a_ctest_case_goes_by_its_own_name(tmp_path, monkeypatch, capsys):
    case = (
        '<testcase name="Sched.NeedsBpf" classname="Sched.NeedsBpf" status="notrun"><skipped message="x"/></testcase>'
    )
    monkeypatch.setattr(sys.modules[__name__], "JUNIT", f"<testsuite>{case}</testsuite>")
    summarise(tmp_path, monkeypatch, skips="e2e Sched.NeedsBpf # no BTF here\n")
    assert capsys.readouterr().out.endswith("\n0 passed, 0 failed, 1 skipped\n")


def test_a_skip_inside_a_gtest_binary_is_seen(tmp_path, monkeypatch, capsys):
    inner = "<system-out>[  SKIPPED ] Sched.NeedsBpf (0 ms)\n</system-out>"
    assert summarise(tmp_path, monkeypatch, inner=inner) == 1
    assert "Sched.NeedsBpf" in capsys.readouterr().out


def test_a_suite_that_dies_or_runs_nothing_fails_the_run(tmp_path, monkeypatch, capsys):
    assert summarise(tmp_path / "died", monkeypatch, status=137) == 1
    assert capsys.readouterr().out.endswith("\n1 passed, 1 failed, 0 skipped\n")
    assert summarise(tmp_path / "empty", monkeypatch, report=False) == 1
