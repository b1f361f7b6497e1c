"""A loop that was interrupted goes on as if it had not been."""

import io

import pytest
import torch
from torch.nn.functional import cross_entropy

from autoassist import Loader

HOW = {
    "policy": "autoassist",
    "batch_size": 15,
    "budget": 3,
    "gamma": 0.05,
    "deterministic": True,
    "config": {"run.lag": 2},
}


def train(loader, model, batches):
    """Trains on that many batches, all that are left for None; returns their ids."""
    ids = []
    for batch in loader:
        losses = cross_entropy(model(batch.inputs[:, :3]), batch.targets, reduction="none")
        loader.report(batch, losses).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.5 * parameter.grad
                parameter.grad = None
        ids.append(batch.ids.tolist())
        if len(ids) == batches:
            break
    return ids


def test_another_loader_goes_on_from_a_state_exactly(points, tmp_path):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    with Loader(points, **HOW) as loader:
        train(loader, model, 22)
        torch.save({"loader": loader.state_dict(), "model": model.state_dict()}, tmp_path / "state.pt")
        rest = train(loader, model, None)
        assert loader.state_dict()["stream"]["account"]["trained"] == 600
        assert loader.stats()["candidates"] > 600
    saved = torch.load(tmp_path / "state.pt", weights_only=True)
    model.load_state_dict(saved["model"])
    with Loader(points, **HOW) as loader:
        loader.load_state_dict(saved["loader"])
        assert loader.progress == pytest.approx(330 / 600)
        assert train(loader, model, None) == rest
        assert loader.progress == 1
        with pytest.raises(ValueError, match="of another version"):
            loader.load_state_dict({"version": 7})
    with Loader(points, seed=1, **HOW) as loader, pytest.raises(ValueError, match="is of seed 0, this loader's is 1"):
        loader.load_state_dict(saved["loader"])


def test_a_loader_that_is_told_of_an_earlier_state_forgets_later_ones(points, tmp_path):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    with Loader(points, run_dir=tmp_path / "run", **HOW) as loader:
        train(loader, model, 20)
        earlier, weights = loader.state_dict(), io.BytesIO()
        torch.save(model.state_dict(), weights)
        rest = train(loader, model, 12)
        loader.state_dict()
        for _ in range(2):
            loader.load_state_dict(earlier)
            weights.seek(0)
            model.load_state_dict(torch.load(weights))
            assert train(loader, model, 12) == rest


@pytest.mark.slow
def test_a_state_of_another_data_set_is_refused(points):
    how = {"batch_size": 50, "budget": 1, "policy": "autoassist"}
    with Loader(points, **how) as loader:
        next(iter(loader))
        state = loader.state_dict()
    with Loader(torch.utils.data.Subset(points, range(150)), **how) as loader:
        loader.load_state_dict(state)
        with pytest.raises(ValueError, match="train_set = '150 instances': the state is of one of 200"):
            next(iter(loader))


def test_the_state_of_a_loader_that_has_not_begun(points):
    loader = Loader(points, batch_size=32, budget=1, policy="uniform")
    state = loader.state_dict()
    file = io.BytesIO()
    torch.save(state, file)
    loader.load_state_dict(state)
    assert loader.stats() == {}
    loader.close()
