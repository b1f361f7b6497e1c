"""A run that writes down the ids of every batch it is trained on, and what must be true of it when workers died."""

from typing import Any

CODE = """
import os, time
import numpy as np
from torch import nn

N = 640


class Named:
    # The first value of an instance is its id.
    targets = np.arange(N) % 4

    def __len__(self):
        return N

    def __getitem__(self, index):
        time.sleep(float(os.environ.get("SLOW", 0)))
        return np.array([index, *np.eye(4)[index % 4]], np.float32), index % 4


class Logging(nn.Module):
    # Writes down the ids of every batch it is trained on; stands still while there is a file "hold".
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.log = open("trained.txt", "a", buffering=1)

    def forward(self, inputs):
        if self.training and len(inputs) > 2:  # the dry run has two
            self.log.write(" ".join(str(int(i)) for i in inputs[:, 0].tolist()) + "\\n")
            time.sleep(0.004)
            while os.path.exists("hold"):
                time.sleep(0.01)
        return self.layer(inputs[:, 1:])


def model(spec):
    return Logging()
"""
BUDGET, N = 6, 640
WORDS = ("data.name=./net.py:Named", "boss.model=./net.py:model", "boss.threads=1", "batcher.batch_size=8",
         f"run.budget={BUDGET}", "boss.eval_every=0")  # fmt: skip


def until_trained(run: Any, batches: int) -> dict[str, int]:
    """Waits until so many batches have been trained; the workers' pids."""
    path = run.folder / "trained.txt"
    run.until(lambda: path.exists() and path.read_text().count("\n") >= batches, f"{batches} batches")
    return run.all_started()


def trained_ids(run: Any) -> list[int]:
    return [int(word) for word in (run.folder / "trained.txt").read_text().split()]


def assert_whole(run: Any, *reasons: str) -> dict[str, Any]:
    """`run` trained all of its budget, and says that workers were restarted for these `reasons`."""
    assert run.wait(400) == 0, run.stdout + run.stderr
    summary = run.summary()
    assert summary["boss_instances"] == BUDGET * N == len(trained_ids(run))
    assert sorted(restart["reason"] for restart in summary["restarts"]) == sorted(reasons)
    for reason in reasons:
        assert f"{reason} at step" in run.stdout
    sent, folded, dropped = summary["reports_sent"], summary["reports_folded"], summary["reports_dropped"]
    assert sent == summary["optimizer_steps"] == BUDGET * N // 8
    assert sent == folded + dropped + summary["reports_unread"]
    assert summary["reports_unread"] >= 0
    assert run.left() == []
    return summary
