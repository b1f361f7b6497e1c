"""Two ranks of DDP over gloo: a loop that was interrupted goes on as if it had not been."""

import json
import subprocess
import sys
import textwrap

import pytest

SCRIPT = """
    import json, sys
    import torch
    import torch.distributed as dist
    from torch.nn.functional import cross_entropy
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import TensorDataset
    import autoassist

    what, rank, store = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(200, 4, generator=generator)
    points = TensorDataset(inputs, (inputs[:, 0] > 0).long())

    def make(**more):
        return autoassist.Loader(
            points, batch_size=15, budget=3, policy="autoassist", gamma=0.05, deterministic=True,
            config={"run.lag": 2}, **more,
        )

    torch.manual_seed(0)

    def fresh():
        model = DistributedDataParallel(torch.nn.Linear(4, 2))
        return model, torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)

    def train(loader, model, optimizer, steps=None):
        seen = []
        for epoch in loader.epochs():
            for batch in epoch:
                losses = cross_entropy(model(batch.inputs), batch.targets, reduction="none")
                loader.report(batch, losses).backward()
                optimizer.step()
                optimizer.zero_grad()
                seen.append([epoch.number, batch.ids.tolist()])
                if len(seen) == steps:
                    return seen
        return seen

    def weights(model):
        return [float(x).hex() for x in model.module.weight.detach().flatten()]

    out = {}
    if what == "begin":
        model, optimizer = fresh()
        start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        with make() as loader:
            out["whole"] = train(loader, model, optimizer)
            out["candidates"] = loader.stats().get("candidates")
        out["weights"] = weights(model)
        model, optimizer = fresh()
        model.load_state_dict(start)
        with make() as loader:
            out["part"] = train(loader, model, optimizer, 9)
            out["progress"] = loader.progress
            state = {"loader": loader.state_dict(), "model": model.state_dict(), "optimizer": optimizer.state_dict()}
            if rank == 0:
                torch.save(state, "state.pt")
        with make() as loader:
            try:
                list(loader)
            except RuntimeError as error:
                out["error"] = str(error)
    else:
        saved = torch.load("state.pt", weights_only=True)
        model, optimizer = fresh()
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader = make()  # never closed
        loader.load_state_dict(saved["loader"])
        out["progress"] = loader.progress
        out["rest"] = train(loader, model, optimizer)
        out["weights"] = weights(model)
    with open(f"{what}-{rank}.json", "w") as file:
        json.dump(out, file)
    dist.destroy_process_group()
"""


@pytest.fixture
def ranks(tmp_path):
    """Runs the script as two ranks; what each has found."""
    (tmp_path / "train.py").write_text(textwrap.dedent(SCRIPT))

    def run(what):
        processes = []
        try:
            for rank in (0, 1):
                words = (sys.executable, "train.py", what, str(rank), str(tmp_path / f"store-{what}"))
                processes.append(subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True))
            for process in processes:
                _, said = process.communicate(timeout=500)
                assert process.returncode == 0, said
        finally:
            for process in processes:
                process.kill()
                process.wait()
                process.stderr.close()
        return [json.loads((tmp_path / f"{what}-{rank}.json").read_text()) for rank in (0, 1)]

    return run


@pytest.mark.slow
def test_two_ranks_go_on_exactly(ranks):
    begun = ranks("begin")
    for one in begun:
        assert one["part"] == one["whole"][:9]
        assert "were not reported, and with deterministic=True the next one waits for that" in one["error"]
    assert begun[1]["error"].startswith("rank 0: ")
    assert begun[0]["weights"] == begun[1]["weights"]
    assert begun[0]["candidates"] > 600  # some were dropped
    assert sorted({number for number, _ in begun[1]["whole"]}) == [0, 1, 2]
    gone_on = ranks("go-on")
    for one, before in zip(gone_on, begun, strict=True):
        assert one["progress"] == before["progress"]
        assert one["rest"] == before["whole"][9:]
        assert one["weights"] == before["weights"]
