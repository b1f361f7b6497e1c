"""A worker that raises: its last line and its log are shown, and nothing is left."""

import pytest
from tiring import tiring

FAILING_MODEL = """
from torch import nn

class Failing(nn.Sequential):
    calls = 0

    def forward(self, inputs):
        self.calls += 1
        if self.calls == 20:
            raise ArithmeticError("planned failure in call 20")
        return super().forward(inputs)

def build(spec):
    return Failing(nn.Flatten(), nn.Linear(64, 10))
"""
FAILING_ITEMS = """
import numpy as np

class Failing:
    targets = np.arange(300) % 3  # so that no item is read before training
    reads = 0

    def __len__(self):
        return 300

    def __getitem__(self, index):
        self.reads += 1
        if self.reads > 500:
            raise ArithmeticError("planned failure of an item")
        return np.zeros(4, np.float32), int(self.targets[index])
"""


def assert_told(run, role, problem):
    """`run` ends with exit code 1, says what `role` raised and where to read more, and leaves nothing."""
    assert run.wait(40) == 1, run.stdout + run.stderr
    log = run.run_dir / "logs" / f"{role}.log"
    assert f"{role} crashed: {problem}" in run.stdout
    assert "Traceback" not in run.stdout + run.stderr
    assert "Traceback" in log.read_text()
    assert problem in log.read_text()
    assert run.summary()["exit_reason"].startswith(f"{role} crashed: {problem}")
    assert run.left() == []
    assert str(log.relative_to(run.folder)) in run.stdout


def test_a_model_that_raises_in_training(start_endless, tmp_path):
    (tmp_path / "net.py").write_text(FAILING_MODEL)
    run = start_endless("boss.model=./net.py:build")
    assert_told(run, "boss", "ArithmeticError: planned failure in call 20")
    assert run.summary()["exit_reason"].endswith("(net.py, line 10)")
    assert 0 < run.summary()["optimizer_steps"] < 20
    report = (run.run_dir / "crash.txt").read_text()
    for part in ("boss crashed: ArithmeticError: planned failure", "Traceback", "MemAvailable", "/dev/shm:", "torch ",
                 'model = "./net.py:build"'):  # fmt: skip
        assert part in report


def test_a_model_that_cannot_be_made(start_endless, tmp_path):
    (tmp_path / "net.py").write_text("def build(spec):\n    raise ArithmeticError('planned failure')\n")
    run = start_endless("boss.model=./net.py:build")
    assert run.wait(40) == 2
    problem = "boss.model = './net.py:build': making it failed: ArithmeticError: planned failure (net.py, line 2)"
    assert problem in run.stderr
    assert not run.run_dir.exists()


def test_an_item_of_a_data_set_that_raises_late(start_endless, tmp_path):
    (tmp_path / "items.py").write_text(FAILING_ITEMS)
    run = start_endless("data.name=./items.py:Failing", "batcher.batch_size=10")
    assert run.wait(40) == 75, run.stdout + run.stderr
    reason = run.summary()["exit_reason"]
    assert reason.startswith("batcher.max_bad = 100: ")
    assert "ArithmeticError: planned failure of an item (items.py, line 14); mend the data, or allow more" in reason
    assert reason in run.stdout
    assert "Traceback" not in run.stdout + run.stderr
    assert run.left() == []
    assert run.summary()["boss_instances"] <= 500


def test_user_code_that_exits_is_a_failure_and_what_was_trained_is_kept(start_endless, tmp_path):
    (tmp_path / "net.py").write_text(FAILING_MODEL.replace("raise ArithmeticError(", "raise SystemExit(2) # ("))
    run = start_endless("boss.model=./net.py:build")
    assert run.wait(40) == 1, run.stdout + run.stderr
    assert run.summary()["exit_reason"] == "boss crashed: SystemExit: 2 (net.py, line 10)"
    assert run.left() == []


FAILING_POLICY = tiring(50, 'raise ArithmeticError("planned failure of a policy")')
FAILING_STREAM = """
import numpy as np
from batcher.plugin import Data

class Failing:
    def __iter__(self):
        for k in range(600):
            yield np.full(4, k, np.float32), k % 3
        raise ArithmeticError("planned failure of a stream")

def data():
    return Data(Failing(), class_names="abc", epoch_size=200)
"""


@pytest.mark.parametrize(
    ("code", "word", "reason"),
    [
        (FAILING_POLICY, "policy.name=./mine.py:Tiring",
         "policy.name = './mine.py:Tiring': raises ArithmeticError: planned failure of a policy (mine.py, line 10); "
         "needed: p and w, float32 [n] each"),
        pytest.param(
         FAILING_STREAM, "data.name=./mine.py:data",
         "data.name = './mine.py:data': the stream failed at position 600: ArithmeticError: planned failure of a "
         "stream (mine.py, line 9)", marks=pytest.mark.slow),
    ],
    ids=["policy", "stream"],
)  # fmt: skip
def test_a_mistake_that_would_be_made_again_ends_the_run_at_once(code, word, reason, start_endless, tmp_path):
    (tmp_path / "mine.py").write_text(code)
    run = start_endless(word, "batcher.batch_size=10", "boss.checkpoint_every=0")
    assert run.wait(60) == 1, run.stdout + run.stderr
    assert run.summary()["exit_reason"] == reason
    assert run.summary()["restarts"] == []
    assert run.summary()["boss_instances"] > 0
    assert reason in run.stdout
    assert "Traceback" not in run.stdout + run.stderr
    assert run.left() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        ("raise KeyboardInterrupt", "batcher crashed: KeyboardInterrupt (items.py, line 14)"),
        ("import os; os._exit(3)", "batcher ended with exit code 3, without a word on why"),
    ],
)
def test_an_item_that_ends_the_batcher(ends, reason, start_endless, tmp_path):
    (tmp_path / "items.py").write_text(FAILING_ITEMS.replace("raise ArithmeticError", f"{ends} # "))
    run = start_endless("data.name=./items.py:Failing", "batcher.batch_size=10", "run.max_restarts=0")
    assert run.wait(60) in (1, 75), run.stdout + run.stderr
    assert run.summary()["exit_reason"] == reason
    assert run.left() == []
