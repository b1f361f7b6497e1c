import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from boss.ema import Ema

GOOD, FAILED = torch.tensor(False), torch.tensor(True)


def test_it_is_torchs_average_of_weights_and_buffers() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    ours, theirs = Ema(model, 0.9), AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    for _ in range(5):
        model(torch.randn(8, 4))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter))
        ours.update(GOOD)
        theirs.update_parameters(model)
    for (name, mine), other in zip(ours.model.state_dict().items(), theirs.module.state_dict().values(), strict=True):
        if mine.is_floating_point():
            torch.testing.assert_close(mine, other, msg=name)
    assert int(ours.model[1].num_batches_tracked) == 5  # type: ignore[index, union-attr]


def test_a_failed_step_is_left_out_even_the_first() -> None:
    model = nn.Linear(1, 1, bias=False)
    ours = Ema(model, 0.5)
    with torch.no_grad():
        model.weight.fill_(8.0)
        ours.update(FAILED)
        assert ours.model.weight != 8
        ours.update(GOOD)
        assert ours.model.weight == 8
        model.weight.fill_(4.0)
        ours.update(FAILED)
        assert ours.model.weight == 8
        ours.update(GOOD)
        assert ours.model.weight == 6
