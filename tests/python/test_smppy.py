# SPDX-License-Identifier: Apache-2.0
"""`smppy` and `smprof`: the shapes of public SageMaker Profiler samples, misuse, and whose module a script gets."""

import shutil

import pytest

# The loop of the developer guide, one window per epoch as in the MNIST sample.
EPOCHS = """
    import smppy
    from smppy import SMProfiler

    profiler = SMProfiler.instance()
    config = smppy.Config()
    config.profiler = {"EnableCuda": "1"}
    profiler.configure(config)
    for epoch in range(2):
        profiler.start_profiling()
        for i in range(3):
            with smppy.annotate("step_" + str(i)):
                with smppy.annotate("Forward"): pass
                with smppy.annotate("Backward"): pass
        profiler.stop_profiling()
"""


def test_windows_per_epoch_and_numbered_steps(scripts):
    (session,) = scripts.record(EPOCHS)
    assert session.windows == ["start", "stop"] * 2
    steps = session.named("step")
    assert [(step.number, step.domain) for step in steps] == [(i, "step") for i in (0, 1, 2)] * 2
    assert [span.path for span in session.spans if span.domain == "user"] == [
        ("step", "Forward"),
        ("step", "Backward"),
    ] * 6


def test_only_step_and_a_number_is_a_step(scripts):
    (session,) = scripts.record("""
        import smppy
        for name in ("step_007", "step_" + "9" * 18):
            with smppy.annotate(name): pass
        for name in ("step", "step_", "step_1a", "my_step_1", "Step_1", "step_1_2", "step_-1", "step_" + "9" * 19, "step_١"):
            with smppy.annotate(name): pass
            smppy.annotation_end(smppy.annotation_begin(name))
    """)
    assert [step.number for step in session.spans if step.domain == "step"] == [7, 10**18 - 1]
    assert len(session.spans) == 2 + 2 * 9


def test_tokens_overlap_and_end_on_another_thread(scripts):
    (session,) = scripts.record("""
        import threading
        from smprof import annotation_begin, annotation_end
        step = annotation_begin("step_4")
        load = annotation_begin("Load")
        annotation_end(step)
        ender = threading.Thread(target=annotation_end, args=(load,))
        ender.start(); ender.join()
    """)
    step, load = session.spans
    assert (step.name, step.number, step.domain, load.name, load.domain) == ("step", 4, "step", "Load", "user")
    assert step.begin < load.begin < step.end < load.end


# The class of a public Keras callback: profiles batches 2 to 4 of the first epoch, a token per batch.
KERAS = """
    import smprof as smppy
    class Callback:  # keras.callbacks.Callback
        def __getattr__(self, name): return lambda *args, **kwargs: None
    class ProfilerCallback(Callback):
        def __init__(self, first, count):
            self.first, self.last, self.token = first, first + count - 1, None
            self.profiler = smppy.SMProfiler.instance()
            config = smppy.Config()
            config.profiler = {"EnableCuda": "1", "EnablePerf": "0", "EnableForkFollow": "0", "BucketCount": "32",
                               "BucketSizeMB": "64", "Compression": "1000001", "RecordFile": "/tmp/smpfile_%p_%t.raw"}
            self.profiler.configure(config)
        def on_train_batch_begin(self, batch, logs=None):
            if batch == self.first: self.profiler.start_profiling()
            self.token = smppy.annotation_begin("step_" + str(batch))
        def on_train_batch_end(self, batch, logs=None):
            smppy.annotation_end(self.token)
            if batch == self.last: self.profiler.stop_profiling()
    def fit(callback):
        callback.on_train_begin()
        for batch in range(6):
            callback.on_train_batch_begin(batch)
            callback.on_train_batch_end(batch)
        callback.on_train_end()
    with smppy.annotate("fit"):
        fit(ProfilerCallback(2, 3))
"""


def test_a_keras_callback(scripts):
    (session,) = scripts.record(KERAS)
    assert [step.number for step in session.named("step")] == list(range(6))
    assert session.windows == ["start", "stop"]
    assert all(span.end is not None for span in session.spans)


def test_annotate_decorates(scripts):
    (session,) = scripts.record("""
        from smppy import annotate
        @annotate("work")
        def work(value):
            "documented"
            return value + 1
        @annotate("step_3")
        def step(): return work(1)
        assert (step(), work.__doc__) == (2, "documented")
    """)
    assert [(span.path, span.number) for span in session.spans] == [(("step",), 3), (("step", "work"), None)]


def test_steps_of_smppy_end_the_automatic_ones(scripts):
    (session,) = scripts.record("""
        import smppy
        from stepscope import _steps
        class Optimizer: pass
        automatic, optimizer = _steps.AutomaticSteps(), Optimizer()
        automatic.after_optimizer_step(optimizer)
        with smppy.annotate("step_0"): automatic.after_optimizer_step(optimizer)
        with smppy.annotate("step_1"): automatic.after_optimizer_step(optimizer)
    """)
    automatic, *named = session.named("step")
    assert automatic.token and automatic.end is not None
    assert [(step.number, step.token) for step in named] == [(0, None), (1, None)]


def test_misused_windows_and_tokens_record_what_they_can(scripts):
    (session,) = scripts.record("""
        import os, threading
        import smppy
        profiler = smppy.SMProfiler.instance()
        assert profiler is smppy.SMProfiler.instance()
        profiler.stop_profiling()
        profiler.start_profiling(); profiler.start_profiling()
        if os.fork() == 0:
            profiler.stop_profiling()  # the window is the parent's
            os._exit(0)
        os.wait()
        stoppers = [threading.Thread(target=profiler.stop_profiling) for _ in range(8)]
        for stopper in stoppers: stopper.start()
        for stopper in stoppers: stopper.join()
        token = smppy.annotation_begin("twice")
        for end in (token, token, None): smppy.annotation_end(end)
        @smppy.annotate("threads")
        def work(): pass
        workers = [threading.Thread(target=work) for _ in range(8)]
        for worker in workers: worker.start()
        for worker in workers: worker.join()
    """)
    assert session.windows == ["start", "start", "stop"]
    assert [span.end is not None for span in session.named("twice") + session.named("threads")] == [True] * 9


OPTIONS = """
    import logging, os, sys
    os.environ["SMP_ENABLE_CUDA"] = "1"
    notes = []
    class Notes(logging.Handler):
        def emit(self, record): notes.append(record.getMessage())
    logging.getLogger("stepscope.smppy").setLevel(logging.INFO)
    logging.getLogger("stepscope.smppy").addHandler(Notes())
    import smppy
    assert len(notes) == 1 and "SMP_ENABLE_CUDA" in notes[0], notes
    config = smppy.Config()
    assert config.profiler == {}
    smppy.SMProfiler.instance().configure(config)
    config.profiler = {"RecordFile": "x", "Compression": 0}
    smppy.SMProfiler.instance().configure(config)
    assert [note.split()[1] for note in notes[1:]] == ["RecordFile", "Compression"], notes
    def refused(option, wanted):
        config.profiler = {option: "1"}
        try: smppy.SMProfiler.instance().configure(config)
        except ValueError as error: assert wanted in str(error), error
        else: raise SystemExit("not refused")
    refused("EnableCude", "the nearest is 'EnableCuda'")
    refused("bucketsize", "the nearest is 'BucketSizeMB'")
    refused("", "smppy has no option ''")
    refused(3, "smppy has no option 3")
    try: config.profiller = {}
    except AttributeError: pass
    else: raise SystemExit("a misspelt attribute")
    for call in (lambda: smppy.annotate(3), lambda: smppy.annotation_begin(b"x"), lambda: smppy.annotation_end("x")):
        try: call()
        except TypeError: continue
        raise SystemExit("no TypeError")
"""


def test_options_are_noted_and_unknown_ones_refused(scripts):
    done = scripts.run(OPTIONS)
    assert done.stdout + done.stderr == ""


def test_every_shape_runs_silently_without_a_daemon_and_without_the_extension(scripts, python_dir, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(python_dir, broken, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for source in (EPOCHS, KERAS, OPTIONS):
        for path in ([python_dir], [broken], [python_dir / "inject"]):
            done = scripts.run(source, path=path)
            assert done.stdout + done.stderr == ""


def test_both_modules_are_one(scripts):
    scripts.run("""
        import smppy, smprof
        assert sorted(smppy.__all__) == sorted(smprof.__all__)
        assert all(getattr(smppy, name) is getattr(smprof, name) for name in smppy.__all__)
        assert all(getattr(smppy, name).__doc__ for name in smppy.__all__)
    """)


INSTALLED = "import sys\nMINE = __name__\nsys.loaded = getattr(sys, 'loaded', 0) + 1\n"


@pytest.mark.parametrize("name", ["smppy", "smprof"])
def test_an_installed_module_wins_wherever_it_is_found(scripts, python_dir, tmp_path, name):
    other = tmp_path / "site"
    (other / name).mkdir(parents=True)
    (other / name / "__init__.py").write_text(INSTALLED)
    (other / name / "part.py").write_text("")
    source = f"""
        import sys
        import {name}
        import {name}.part
        from {name} import MINE
        assert sys.loaded == 1 and MINE == {name!r} and {name}.MINE
        assert sys.modules[{name!r}] is {name}
        import stepscope
    """
    for path in (
        [python_dir, other],
        [other, python_dir],
        [python_dir / "inject", other],
        [other, python_dir / "inject"],
    ):
        assert scripts.run(source, path=path).stderr == ""
    both = [python_dir, other]
    taken = {"smppy": "smprof", "smprof": "smppy"}[name]
    scripts.run(f"import {name}, {taken}; assert {taken}.SMProfiler", path=both)


def test_an_editable_installation_wins_too(scripts, python_dir):
    scripts.run("""
        import importlib.util, sys
        open("elsewhere.py", "w").write("MINE = True")
        class Editable:
            @staticmethod
            def find_spec(name, path=None, target=None):
                return importlib.util.spec_from_file_location(name, "elsewhere.py") if name == "smppy" else None
        sys.meta_path.append(Editable)
        import smppy
        assert smppy.MINE
    """)


def test_an_installed_module_that_fails_fails_as_without_us(scripts, python_dir, tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "smprof.py").write_text("raise ImportError('no libcuda')\n")
    done = scripts.run("import smprof", path=[python_dir, tmp_path / "site"], expect=1)
    assert done.stderr.rstrip().endswith("ImportError: no libcuda")


def test_two_copies_of_ours_and_a_folder_of_that_name_do_no_harm(scripts, python_dir, tmp_path):
    shutil.copytree(python_dir, tmp_path / "copy", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    (tmp_path / "smppy").mkdir()  # a folder without __init__.py beside the script: Python's namespace package
    for path in ([python_dir, tmp_path / "copy"], [tmp_path / "copy", python_dir]):
        scripts.run("import smppy, smprof; assert smppy.SMProfiler and smprof.SMProfiler", path=path)


def test_another_stepscope_leaves_smppy_absent(scripts, python_dir, tmp_path):
    (tmp_path / "stepscope.py").write_text("MINE = True\n")
    scripts.run(
        """
        try: import smppy
        except ImportError: smppy = None
        import stepscope
        assert smppy is None and stepscope.MINE
        """,
        path=[python_dir / "inject"],
    )
