# SPDX-License-Identifier: Apache-2.0
"""What the calls of the package put into the ring file of their process."""

from receiver import Receiver


def test_annotations_nest_and_split_off_their_number(scripts):
    (session,) = scripts.record("""
        import stepscope as ss
        with ss.annotate("epoch_3"):
            for i in range(2):
                with ss.annotate(f"batch {i}"):
                    with ss.annotate("forward"): pass
    """)
    assert [(span.path, span.number) for span in session.spans] == [
        (("epoch",), 3),
        (("epoch", "batch"), 0),
        (("epoch", "batch", "forward"), None),
        (("epoch", "batch"), 1),
        (("epoch", "batch", "forward"), None),
    ]
    assert all(span.begin <= span.end and not span.unbalanced for span in session.spans)
    assert {span.domain for span in session.spans} == {"user"}


def test_one_annotation_may_be_nested_in_itself_and_shared_by_threads(scripts):
    (session,) = scripts.record("""
        import threading
        import stepscope as ss
        shared = ss.annotate("shared")
        def work():
            with shared, shared: pass
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
    """)
    assert sorted(span.path for span in session.spans) == [("shared",)] * 3 + [("shared", "shared")] * 3
    assert len({span.thread for span in session.spans}) == 3


def test_exceptions_and_abandoned_generators_leave_the_spans_balanced(scripts):
    (session,) = scripts.record("""
        import stepscope as ss
        def items():
            with ss.annotate("inside"):
                yield 1
                yield 2
        for item in items():
            break
        try:
            with ss.annotate("raising"): raise ValueError
        except ValueError: pass
        with ss.annotate("after"): pass
    """)
    assert [span.path for span in session.spans] == [("inside",), ("raising",), ("after",)]
    assert all(span.end is not None for span in session.spans)


def test_a_generator_that_leaves_late_closes_its_own_span_and_flags_it(scripts):
    (session,) = scripts.record("""
        import stepscope as ss
        def items():
            with ss.annotate("generator"):
                yield 1
        suspended = items()
        next(suspended)
        with ss.annotate("consumer"):
            suspended.close()
        with ss.annotate("after"): pass
    """)
    generator, consumer, after = session.spans
    assert (generator.path, generator.unbalanced) == (("generator",), True)
    assert consumer.end == generator.end
    assert after.path == ("after",)


def test_tokens_overlap_and_may_end_in_another_thread(scripts):
    (session,) = scripts.record("""
        import threading
        import stepscope as ss
        first, second = ss.begin("first 1"), ss.begin("second 2")
        ss.end(first)
        ender = threading.Thread(target=ss.end, args=(second,))
        ender.start(); ender.join()
    """)
    first, second = session.spans
    assert (first.name, first.number, second.name, second.number) == ("first", 1, "second", 2)
    assert first.begin < second.begin < first.end < second.end


def test_decorated_coroutines_overlap_and_plain_functions_nest(scripts):
    (session,) = scripts.record("""
        import asyncio
        import stepscope as ss
        @ss.annotate("plain")
        def plain(): pass
        @ss.annotate("coroutine")
        async def coroutine(naps):
            for _ in range(naps): await asyncio.sleep(0)
            plain()
        async def both(): await asyncio.gather(coroutine(1), coroutine(3))
        asyncio.run(both())
    """)
    first, second = session.named("coroutine")
    assert first.begin < second.begin < first.end < second.end
    assert [span.path for span in session.named("plain")] == [("plain",)] * 2


def test_steps_number_the_items_and_cover_fetch_and_body(scripts):
    (session,) = scripts.record("""
        import stepscope as ss
        class Loader(list):
            def __iter__(self):
                for item in list.__iter__(self):
                    ss.mark("fetch")
                    with ss.annotate("fetch"): pass
                    yield item
        epochs = ss.steps(Loader("ab"))
        for _ in range(2):
            for item in epochs:
                with ss.annotate("body"): pass
    """)
    steps = session.named("step")
    assert [span.number for span in steps] == [0, 1, 2, 3]
    assert {span.domain for span in steps} == {"step"}
    assert [span.path for span in session.spans if span.name != "step"] == [("step", "fetch"), ("step", "body")] * 4


def test_a_loop_left_early_and_an_iterable_without_length_count_no_step_too_many(scripts):
    (session,) = scripts.record("""
        import stepscope as ss
        for item in ss.steps(iter("abc"), start=5): pass
        for item in ss.steps([1, 2, 3], start=10):
            if item == 2: break
        with ss.step(99): pass
    """)
    assert [span.number for span in session.named("step")] == [5, 6, 7, 10, 11, 99]
    assert all(span.end is not None and span.parent is None for span in session.spans)


def test_counters_marks_facts_and_windows_arrive(scripts):
    (session,) = scripts.record("""
        import stepscope as ss
        ss.start()
        ss.counter("loss", 0.5); ss.counter("loss", 1); ss.counter("loss", 10**400)
        ss.mark("eval")
        class NoText:
            def __str__(self): raise RuntimeError
        ss.info(lr=3e-4, model="tiny", bad=NoText())
        ss.stop()
        print(ss.state(), ss.lost())
    """)
    assert session.counters == [("loss", 0.5), ("loss", 1.0)]
    assert session.marks == ["eval"]
    assert session.info == {"lr": "0.0003", "model": "tiny", "bad": "<NoText without a text form>"}
    assert session.windows == ["start", "stop"]


def test_strange_names_are_repaired_and_long_ones_cut(scripts):
    (session,) = scripts.record("""
        import stepscope as ss
        with ss.annotate("bad \\udcff!"): pass
        with ss.annotate("schön 世界"): pass
        with ss.annotate("y" * 2**20): pass
    """)
    repaired, kept, cut = (span.name for span in session.spans)
    assert repaired.startswith("bad \ufffd") and repaired.endswith("!")
    assert kept == "schön 世界"
    assert cut.startswith("yyyy") and len(cut) <= 4096


def test_a_child_that_leaves_by_os_exit_loses_nothing(scripts):
    sessions = scripts.record("""
        import os
        import stepscope as ss
        with ss.annotate("parent"): pass
        child = os.fork()
        with ss.annotate("both"): pass
        if child == 0: os._exit(0)
        os.waitpid(child, 0)
    """)
    assert sorted([span.name for span in session.spans] for session in sessions) == [["both"], ["parent", "both"]]


def test_names_with_a_running_number_do_not_pile_up(scripts):
    (session,) = scripts.record("""
        import resource
        import stepscope as ss
        for i in range(20):
            with ss.annotate(f"item {i}"): pass
        for i in range(200_000): ss.annotate(f"other {i}")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for i in range(200_000, 600_000): ss.annotate(f"other {i}")
        grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown_kib < 2000, grown_kib
    """)
    assert [span.number for span in session.named("item")] == list(range(20))


# Where the lock is, found another way than the extension does: a fixed offset (CPython 3.11, first field of ceval.gil), or the
# table of offsets for debuggers that 3.13 keeps at the start of _PyRuntime (Include/internal/pycore_runtime.h).
WHERE_THE_GIL_IS = """
import ctypes, sys
import stepscope as ss
runtime = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
word = lambda address: ctypes.c_uint64.from_address(address).value
known = {(3, 11): lambda: runtime + 360, (3, 13): lambda: word(runtime + word(runtime + 8 * 5)) + word(runtime + 8 * 15)}
ss.info(gil=known.get(sys.version_info[:2], lambda: 0)())
ss.mark("a")
"""


def test_the_published_range_is_the_lock_of_the_interpreter(scripts):
    (session,) = scripts.record(WHERE_THE_GIL_IS)
    ((begin, end),) = session.gil
    assert end - begin == 208
    assert int(session.info["gil"]) in (begin, 0)


def test_every_process_publishes_the_gil_range_once(scripts):
    sessions = scripts.record("""
        import os
        import stepscope as ss
        shared = ss.annotate("shared")
        ss.mark("a"); ss.mark("b"); ss.start()
        child = os.fork()
        with shared: pass
        if child == 0: os._exit(0)
        os.waitpid(child, 0)
    """)
    assert [len(session.gil) for session in sessions] == [1, 1]


def test_a_process_that_records_nothing_opens_no_session(scripts):
    with Receiver() as receiver:
        scripts.run(
            """
            import stepscope as ss
            @ss.annotate("never called")
            def function(): pass
            assert ss.lost() == 0 and ss.state()
            """,
            socket=receiver.path,
        )
        assert receiver.sessions() == []
