# SPDX-License-Identifier: Apache-2.0
"""Spans that an unannotated PyTorch script gets under `stepscope run`."""

import pytest
from receiver import Receiver

pytestmark = pytest.mark.torch

TRAIN = """
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    def main(workers, steps, loop):
        torch.set_num_threads(1)
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        data = DataLoader(TensorDataset(torch.zeros(2 * steps, 4)), batch_size=2, num_workers=workers)
        for (batch,) in loop(data):
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
"""


def test_optimizer_steps_steps_and_loader_waits_of_a_plain_script(scripts):
    (session,) = scripts.inject(TRAIN + "    main(workers=0, steps=4, loop=iter)\n")
    optimizer = session.named("optimizer.step")
    assert [span.domain for span in optimizer] == ["optimizer"] * 4
    steps = session.named("step")
    assert [(span.domain, span.number) for span in steps] == [("step", 1), ("step", 2), ("step", 3), ("step", 4)]
    assert steps[-1].end is None, "the last one is open: nothing ended it"
    for step, previous, own in zip(steps, optimizer, optimizer[1:]):
        assert previous.end <= step.begin <= own.begin < own.end <= step.end
    waits = session.named("dataloader.next")
    assert len(waits) == 5  # the last one finds the end of the data
    assert {span.domain for span in waits} == {"loader"}
    assert [span.path for span in session.named("dataloader.fetch")] == [("dataloader.next", "dataloader.fetch")] * 4


def test_forked_loader_workers_record_their_own_fetches(scripts):
    sessions = scripts.inject(TRAIN + "    main(workers=2, steps=4, loop=iter)\n")
    # A worker may fetch, and so say hello, before the trainer asks for its first batch.
    trainer = next(session for session in sessions if session.named("dataloader.next"))
    workers = [session for session in sessions if session is not trainer]
    assert len(trainer.named("dataloader.next")) == 5
    assert not trainer.named("dataloader.fetch")
    assert sorted(len(worker.named("dataloader.fetch")) for worker in workers) == [2, 2]
    assert all(span.end is not None for worker in workers for span in worker.spans)


def test_spawned_loader_workers_record_too(scripts):
    sessions = scripts.inject("""
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        if __name__ == "__main__":
            data = TensorDataset(torch.zeros(4, 4))
            for batch in DataLoader(data, batch_size=2, num_workers=1, multiprocessing_context="spawn"): pass
    """)
    assert sorted(len(session.named("dataloader.fetch")) for session in sessions) == [0, 2]


def test_steps_named_by_the_user_replace_the_automatic_ones(scripts):
    (session,) = scripts.inject(
        TRAIN + "    import stepscope as ss\n    main(workers=0, steps=3, loop=lambda data: ss.steps(data))\n"
    )
    assert [span.number for span in session.named("step")] == [0, 1, 2]
    assert all(span.token is None for span in session.named("step"))
    assert len(session.named("optimizer.step")) == 3


def test_steps_named_late_end_the_automatic_ones(scripts):
    (session,) = scripts.inject(
        TRAIN
        + "    import stepscope as ss\n    main(0, 3, iter)\n    main(0, 2, lambda data: ss.steps(data, start=100))\n"
    )
    assert [span.number for span in session.named("step")] == [1, 2, 3, 100, 101]
    assert all(span.end is not None for span in session.named("step"))


def test_only_the_first_optimizer_is_a_step_boundary(scripts):
    (session,) = scripts.inject("""
        import torch
        def optimizer():
            weight = torch.nn.Parameter(torch.zeros(2))
            weight.grad = torch.zeros(2)
            return torch.optim.SGD([weight], lr=0.1)
        generator, discriminator = optimizer(), optimizer()
        for _ in range(3):
            generator.step(); discriminator.step()
        del generator
        for _ in range(2):
            discriminator.step()
    """)
    assert len(session.named("optimizer.step")) == 8
    assert [span.number for span in session.named("step")] == [1, 2, 3, 4, 5]


def test_an_optimizer_that_raises_leaves_later_spans_alone(scripts):
    (session,) = scripts.inject("""
        import torch
        import stepscope as ss
        weight = torch.nn.Parameter(torch.zeros(2)); weight.grad = torch.zeros(2)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        def closure(): raise KeyError("mine")
        try:
            with ss.annotate("around"): optimizer.step(closure)
        except KeyError: pass
        with ss.annotate("after"): optimizer.step()
    """)
    assert [span.path for span in session.named("around") + session.named("after")] == [("around",), ("after",)]
    assert all(span.end is not None and not span.unbalanced for span in session.named("around"))


def test_a_launcher_that_only_imports_torch_opens_no_session(scripts):
    with Receiver() as receiver:
        scripts.run("import torch", socket=receiver.path, path=[scripts.python_dir / "inject"])
        assert receiver.sessions() == []


def test_users_see_pytorch_as_it_was(scripts):
    done = scripts.run(
        """
        import inspect, pickle, traceback
        import torch
        from torch.utils.data import DataLoader, dataloader
        from torch.utils.data._utils import fetch
        wrapped = dataloader._BaseDataLoaderIter.__next__
        assert type(wrapped).__name__ == "TracedFunction"
        assert wrapped.__name__ == "__next__" and wrapped.__module__ == "torch.utils.data.dataloader"
        assert list(inspect.signature(wrapped).parameters) == ["self"]
        assert "_next_data" in inspect.getsource(wrapped)
        class Broken(torch.utils.data.Dataset):
            def __len__(self): return 1
            def __getitem__(self, index): raise LookupError("mine")
        try:
            next(iter(DataLoader(Broken())))
        except LookupError as error:
            files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
            assert not any(name in file for file in files for name in ("_torch_hooks", "sitecustomize", "_agent")), files
        pickle.dumps(fetch._MapDatasetFetcher)
        """,
        path=[scripts.python_dir / "inject"],
    )
    assert done.stderr == ""


def test_another_tools_wrapper_stays_on_top_and_ours_stays_away(scripts):
    scripts.run(
        """
        import torch.utils.data.dataloader as dataloader
        theirs = lambda self: None
        owner = dataloader._BaseDataLoaderIter
        owner.__next__ = theirs
        from stepscope import _torch_hooks
        _torch_hooks._trace_method(owner, "__next__", "dataloader.next")
        assert owner.__dict__["__next__"] is theirs
        """,
    )


def test_a_compiled_optimizer_step_breaks_into_no_more_graphs(scripts):
    compiled = """
        import torch
        weight = torch.nn.Parameter(torch.zeros(2)); weight.grad = torch.ones(2)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        explained = torch._dynamo.explain(lambda: optimizer.step())()
        torch._dynamo.reset()
        torch.compile(lambda: optimizer.step(), backend="eager")()
        print(explained.graph_count, explained.graph_break_count, weight.tolist())
    """
    alone = scripts.run(compiled, path=[])
    hooked = scripts.run(compiled, path=[scripts.python_dir / "inject"])
    assert hooked.stdout == alone.stdout


def test_both_examples_train_and_agree(scripts, tmp_path):
    import conftest

    examples = conftest.REPOSITORY / "examples"
    losses = []
    for name in ("train_ddp.py", "train_ddp_plain.py"):
        source = f"""
            import runpy, sys
            sys.argv = ["{name}", "--steps", "20", "--batch", "2", "--workers", "1", "--step-times", "{tmp_path}/times"]
            sys.path.insert(0, "{examples}")
            runpy.run_path("{examples}/{name}", run_name="__main__")
        """
        done = scripts.run(source, path=[scripts.python_dir / "inject"])
        losses.append(done.stdout.split("loss ")[1].split(",")[0])
        assert len((tmp_path / "times").read_text().splitlines()) == 20
    assert losses[0] == losses[1]
