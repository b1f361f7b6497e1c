import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from toys import batch

from boss import checkpoint
from boss.account import Account
from boss.checkpoint import Checkpointer, save_weights
from boss.outlet import LossOutlet
from boss.state import State


class Tied(nn.Module):
    """Two layers that share their weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.second.weight = self.first.weight


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    "model", [nn.Linear(3, 2), nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2)).half(), nn.Linear(3, 2).bfloat16()]
)
def test_the_file_loads_back_equal(model: nn.Module, tmp_path: Path) -> None:
    save_weights(model.state_dict(), tmp_path / "model.safetensors")
    loaded, expected = load_file(tmp_path / "model.safetensors"), model.state_dict()
    assert loaded.keys() == expected.keys()
    for name, value in expected.items():
        assert loaded[name].dtype == value.dtype
        assert torch.equal(loaded[name], value)
    assert names(tmp_path) == ["model.safetensors"]


def test_a_model_with_tied_weights_is_saved(tmp_path: Path) -> None:
    model = Tied()
    save_weights(model.state_dict(), tmp_path / "m")
    assert torch.equal(load_file(tmp_path / "m")["first.weight"], model.first.weight)


def test_an_old_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "m").write_text("old")
    model = nn.Linear(3, 2)
    save_weights(model.state_dict(), tmp_path / "m")
    assert torch.equal(load_file(tmp_path / "m")["weight"], model.weight)


def test_a_failure_leaves_neither_a_partial_file_nor_a_broken_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = nn.Linear(3, 2)
    save_weights(model.state_dict(), tmp_path / "m")

    def full_disk(tensors: Any, filename: Any) -> None:
        Path(filename).write_bytes(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full_disk)
    with pytest.raises(OSError, match="no space"):
        save_weights(nn.Linear(3, 2).state_dict(), tmp_path / "m")
    assert names(tmp_path) == ["m"]
    assert torch.equal(load_file(tmp_path / "m")["weight"], model.weight)


def test_a_run_of_very_many_boss_epochs_does_not_write_a_checkpoint_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Trainer:
        improved, between_steps, evaluated = False, True, nn.Linear(1, 1)

        def state(self) -> State:
            return State({}, {})

        def load(self, state: State) -> None: ...

    taken: list[int] = []
    monkeypatch.setattr(checkpoint.checkpoint, "write_part", lambda *part: taken.append(account.trained) or {})
    account, outlet = Account(), LossOutlet(lambda message: True, 8)
    checkpointer = Checkpointer(tmp_path, 10, Trainer(), account, outlet, lambda told: None, lambda text: None)
    for account.trained in range(5, 100_000, 5):
        checkpointer.after_batch(batch([1]))
    assert taken[:999] == list(range(10, 10_000, 10))
    assert len(taken) < 3500
    assert all(after - before <= 10 + after / 1000 for before, after in itertools.pairwise(taken))


def test_a_folder_that_is_not_there_is_an_error_without_a_trace(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="No such file"):
        save_weights(nn.Linear(3, 2).state_dict(), tmp_path / "none" / "m")
    assert names(tmp_path) == []
