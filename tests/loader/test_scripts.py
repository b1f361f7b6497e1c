"""Loaders in the scripts and sessions of users, who guard nothing and close nothing."""

import signal
import subprocess
import sys
import textwrap
import time

import pytest

SCRIPT = """
    from collections import namedtuple
    import numpy as np
    import torch
    import autoassist

    Sample = namedtuple("Sample", "image extra")
    scale = 2

    class Photos:
        def __init__(self, transform):
            self.transform = transform
        def __len__(self):
            return 64
        def __getitem__(self, index):
            image = self.transform(np.full((2, 3), index, np.float32))
            return Sample(image, {"index": index, "noise": torch.rand(2)}), index % 2 == 0

    loader = autoassist.Loader(Photos(lambda x: x * scale), batch_size=16, budget=2, workers=1, policy="uniform")
    print("main", flush=True)
    for batch in loader:
        sample, label = batch.data
        assert type(sample) is Sample, type(sample)
        assert torch.equal(sample.image[:, 1, 2], 2.0 * batch.ids)
        assert torch.equal(sample.extra["index"], batch.ids) and sample.extra["noise"].shape == (16, 2)
        assert torch.equal(label, (batch.ids % 2 == 0).long())
        assert batch.inputs is sample and batch.targets is label
        loader.report(batch, torch.ones(16, requires_grad=True)).backward()
"""


def test_a_script_works_as_it_stands(run_script):
    assert run_script(SCRIPT + '    print("last", loader.progress)\n') == "main\nlast 1.0\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_nothing_outlives_a_script(tmp_path, number):
    """The fixture that watches for leaks finds what does."""
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(SCRIPT).replace("budget=2", "budget=10000") + "    print('step', flush=True)\n")
    with (tmp_path / "err").open("w") as err:
        process = subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, stderr=err, text=True)
        try:
            assert process.stdout.readline() == "main\n"
            assert process.stdout.readline() == "step\n", (tmp_path / "err").read_text()
            process.send_signal(number)
            code = process.wait(30)
        finally:
            process.kill()
            process.stdout.close()
    assert code == -number
    time.sleep(1.5)  # beside the time that the fixture gives


def test_sigterm_to_all_is_the_scripts_to_decide(tmp_path):
    """It comes to every process, over and over and from the start on, as at the end of a job; the script goes on."""
    begin = """
    import os, signal, threading, time
    signal.signal(signal.SIGTERM, lambda *_: None)

    def at_the_end_of_a_job():
        while True:
            os.killpg(0, signal.SIGTERM)
            time.sleep(0.01)

    threading.Thread(target=at_the_end_of_a_job, daemon=True).start()
    """
    end = """
    state, stats = loader.state_dict(), loader.stats()
    print(state["stream"]["account"]["trained"], stats["reports_made"], flush=True)
    """
    path = tmp_path / "train.py"
    script = SCRIPT.replace('"uniform"', '"assist"').replace("budget=2", "budget=20")
    path.write_text(textwrap.dedent(begin) + textwrap.dedent(script) + textwrap.dedent(end))
    command = [sys.executable, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, start_new_session=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "main\n1280 80\n"
    assert [word for word in ("SIGTERM", "started again", "replaced") if word in done.stderr] == []


@pytest.mark.slow
def test_an_interactive_session(run_script):
    code = textwrap.dedent(SCRIPT).replace("\n\nloader", "\n\n\nloader") + "\n\nprint('last', loader.progress)\n"
    lines = []
    for line in code.splitlines():  # a block ends with an empty line, and only with that
        if lines and line and not line.startswith((" ", ")")) and lines[-1].startswith(" "):
            lines.append("")
        lines += [line] if line else []
    typed = "\n".join(lines) + "\n\nprint('last', loader.progress)\n"
    assert "last 1.0" in run_script("", command=(sys.executable, "-i", "-q"), stdin=typed)


@pytest.mark.slow
def test_cells_of_a_notebook(run_script):
    """A cell that makes the loader again drops the one before it, in the middle of its stream."""
    make, loop = textwrap.dedent(SCRIPT).split("for batch", 1)
    cells = [make, "first = next(iter(loader))", make, "del first", "for batch" + loop, "print(loader.progress)"]
    run_script(
        f"""
        import gc, os, sys
        cells = {cells!r}
        namespace = sys.modules["__main__"].__dict__
        for cell in cells:
            exec(compile(cell, "<cell>", "exec"), namespace)
        gc.collect()
        children = [line for line in os.popen("ps --ppid %d -o args=" % os.getpid()) if "attendant" in line]
        assert not children, children
        """
    )


@pytest.mark.slow
def test_forks_beside_a_stream_change_nothing(run_script):
    """A child may come and go, and does not get at the stream; so do the workers of a DataLoader."""
    printed = run_script(
        """
        import os, sys
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        import autoassist

        points = TensorDataset(torch.arange(200.0), torch.arange(200) % 2)
        loader = autoassist.Loader(points, batch_size=20, budget=2, policy="uniform")
        first = next(iter(loader))
        child = os.fork()
        if child == 0:
            for use in (lambda: next(iter(loader)), loader.state_dict, lambda: loader.report(first, torch.ones(20))):
                try:
                    use()
                except RuntimeError as error:
                    assert "make a loader here" in str(error), error
                else:
                    os._exit(3)
            loader.close()
            sys.exit(7)  # through all that runs at an interpreter's end
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert sum(len(inputs) for inputs, _ in DataLoader(points, batch_size=50, num_workers=2)) == 200
        ids = first.ids.tolist()
        for batch in loader:
            loader.report(batch, torch.ones(20, requires_grad=True)).backward()
            ids += batch.ids.tolist()
        assert sorted(ids) == sorted(2 * list(range(200)))
        print("made", loader.stats()["reports_made"])
        """
    )
    assert printed == "made 19\n"


@pytest.mark.slow
def test_in_a_worker_of_pytest_xdist(tmp_path, run_script):
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    # A class in a function is found nowhere, so its like is made.
    script = SCRIPT.replace("type(sample) is Sample", "sample._fields == Sample._fields")
    body = textwrap.indent(textwrap.dedent(script), "    ")
    (tmp_path / "test_it.py").write_text(f"def test_it():\n{body}\n\ndef test_again():\n    test_it()\n")
    command = (sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "test_it.py")
    assert "2 passed" in run_script("", command=command)
