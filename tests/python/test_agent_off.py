# SPDX-License-Identifier: Apache-2.0
"""Without a daemon, and without even an agent, the package behaves the same towards the script that uses it."""

import shutil

import pytest

EVERY_CALL = """
    import asyncio, copy, pickle, threading
    import stepscope as ss

    with ss.annotate("outer") as outer, ss.annotate("inner"), outer:
        pass
    token = ss.begin("overlapping")
    ss.end(token)
    ss.end(token)
    ss.end(None)
    ss.counter("loss", 0.25)
    ss.counter("too big for a float", 10**400)
    ss.mark("here")
    ss.info(lr=3e-4, note="x")
    ss.start()
    ss.stop()
    assert list(ss.steps([1, 2, 3])) == [1, 2, 3]
    assert list(ss.steps(iter("ab"))) == ["a", "b"]
    assert len(ss.steps([1, 2, 3])) == 3
    with ss.step(7):
        pass
    with ss.step(10**30):
        pass
    for strange in ("x" * 2**20, "\\udcff lone", "\\0", ""):
        with ss.annotate(strange):
            ss.mark(strange)

    @ss.annotate("work")
    def work(value):
        "documented"
        return value + 1

    assert (work(1), work.__name__, work.__doc__) == (2, "work", "documented")

    @ss.annotate("numbers")
    def numbers():
        received = yield 1
        return received

    generator = numbers()
    assert next(generator) == 1
    try:
        generator.send(5)
    except StopIteration as stop:
        assert stop.value == 5

    @ss.annotate("later")
    async def later():
        await asyncio.sleep(0)
        return 3

    assert asyncio.run(later()) == 3

    @ss.annotate("stream")
    async def stream():
        yield 1

    async def collect():
        return [item async for item in stream()]

    assert asyncio.run(collect()) == [1]
    assert pickle.loads(pickle.dumps(ss.annotate("name"))).name == "name"
    assert repr(copy.copy(ss.annotate("name"))) == "stepscope.annotate('name')"
    try:
        with ss.annotate("raises"):
            raise KeyError("through")
    except KeyError:
        pass
    assert (ss.lost() > 0) == ("no daemon" in ss.state())  # without the extension nothing is counted
    assert ss.flush(0.01) is False
    print(ss.state())
"""

MISUSE = """
    import stepscope as ss

    def refused(call):
        try:
            call()
        except TypeError as error:
            assert str(error), "a TypeError says what is wrong"
            return
        raise SystemExit("no TypeError")

    refused(lambda: ss.annotate(3))
    refused(lambda: ss.annotate(b"bytes"))
    refused(lambda: ss.annotate())
    refused(lambda: ss.annotate("decorates")(3))
    refused(lambda: ss.mark(None))
    refused(lambda: ss.begin(1.5))
    refused(lambda: ss.end("a name"))
    refused(lambda: ss.counter("loss", "0.5"))
    refused(lambda: ss.counter(1, 0.5))
    refused(lambda: ss.step("3"))
    try:
        ss.open("last")
    except NotImplementedError as error:
        assert "stepscope report" in str(error)
"""


@pytest.fixture
def package_without_extension(python_dir, tmp_path):
    copied = tmp_path / "broken"
    shutil.copytree(
        python_dir / "stepscope", copied / "stepscope", ignore=shutil.ignore_patterns("*.so", "__pycache__")
    )
    return copied


def test_every_call_works_and_prints_nothing_without_a_daemon(scripts):
    done = scripts.run(EVERY_CALL)
    assert done.stdout.startswith("off: ")
    assert "nobody.sock" in done.stdout
    assert done.stderr == ""


def test_every_call_works_without_the_extension(scripts, package_without_extension):
    done = scripts.run(EVERY_CALL, path=[package_without_extension])
    assert done.stdout.startswith("off: extension not loaded: ")
    assert done.stderr == ""


def test_an_extension_that_is_no_library_is_named_in_the_state(scripts, package_without_extension):
    (package_without_extension / "stepscope" / "_agent.abi3.so").write_bytes(b"garbage")
    done = scripts.run(EVERY_CALL, path=[package_without_extension])
    assert done.stdout.startswith("off: extension not loaded: ")
    assert "_agent.abi3.so" in done.stdout


def test_a_missing_agent_library_is_named_in_the_state(scripts, python_dir, package_without_extension):
    shutil.copy(python_dir / "stepscope" / "_agent.abi3.so", package_without_extension / "stepscope")
    done = scripts.run("import stepscope; print(stepscope.state())", path=[package_without_extension])
    assert "libstepscope_agent.so" in done.stdout


def test_misuse_is_a_type_error_with_and_without_the_extension(scripts, package_without_extension):
    scripts.run(MISUSE)
    scripts.run(MISUSE, path=[package_without_extension])
