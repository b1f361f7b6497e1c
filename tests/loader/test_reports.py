"""What `report` takes, and what it says of anything else."""

import pytest
import torch

from autoassist.batch import Batch, Ticket
from autoassist.reports import check, mean

EIGHT = Batch((torch.zeros(8, 2), torch.zeros(8)), torch.arange(8), torch.ones(8), Ticket(None))


@pytest.mark.parametrize(
    ("losses", "said"),
    [
        (torch.tensor(1.0), r'not \[\]: a mean is too late: cross_entropy\(logits, targets, reduction="none"\)'),
        (torch.ones(8, 5, 3), r"not \[8, 5, 3\]: bring it to one number for each: losses.mean\(dim=\[1, 2\]\)"),
        (torch.ones(1, 8), r"not \[1, 8\]: losses.reshape\(-1\)"),
        (torch.ones(7), r"one loss for each of the 8 instances, shape \[8\], not \[7\]: report the whole batch"),
    ],
)
def test_another_shape_is_refused_with_the_fix(losses, said):
    with pytest.raises(ValueError, match=said):
        check(EIGHT, losses)


def test_inputs_are_no_batch():
    inputs, _ = EIGHT  # as a loop over a DataLoader takes it apart
    with pytest.raises(TypeError, match=r"the batch as the loader hands it out, not a Tensor: for batch in loader"):
        check(inputs, torch.ones(8))


def test_no_tensor_is_refused():
    with pytest.raises(TypeError, match=r"a tensor of shape \[8\], not a list"):
        check(EIGHT, [1.0] * 8)
    check(EIGHT, torch.ones(8))


def test_the_mean_is_by_weight_and_in_float32():
    losses = torch.tensor([60000.0, 60000.0, 1.0], dtype=torch.float16, requires_grad=True)
    weights = torch.tensor([1.0, 1.0, 2.0])
    found = mean(losses, weights)
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx((120000 + 2) / 4, rel=1e-3)  # their sum overflows in float16
    found.backward()
    assert torch.allclose(losses.grad.float(), weights / 4)
    assert mean(losses.detach(), None).item() == pytest.approx(120001 / 3, rel=1e-3)
