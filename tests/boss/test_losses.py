from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy

from boss.config import BossConfig
from boss.losses import Criterion, bce, mse
from proto.errors import ConfigError

LOGITS, TARGETS = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 3, 0, 1])
PARTNERS = TARGETS.roll(1)

USERS = """
def scalar(logits, targets):
    return logits.sum()

def per_token(logits, targets):
    return logits[:, :3]

def number(logits, targets):
    return 0.5

def failing(logits, targets):
    return logits[:, 99]

def margin(logits, targets):
    return (1 - logits[range(len(targets)), targets]).clamp(min=0)
"""


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "users.py").write_text(USERS)


def plain(targets: torch.Tensor = TARGETS, smoothing: float = 0.0) -> torch.Tensor:
    return cross_entropy(LOGITS, targets, reduction="none", label_smoothing=smoothing)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("share", [1.0, 0.7])
def test_the_reported_loss_is_plain_whatever_is_trained_on(smoothing: float, share: float) -> None:
    trained, reported = Criterion(BossConfig(label_smoothing=smoothing))(LOGITS, TARGETS, PARTNERS, share)
    torch.testing.assert_close(reported, plain())
    torch.testing.assert_close(
        trained, share * plain(smoothing=smoothing) + (1 - share) * plain(PARTNERS, smoothing=smoothing)
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_losses_are_computed_in_float32_or_wider(dtype: torch.dtype) -> None:
    trained, reported = Criterion(BossConfig())(LOGITS.to(dtype), TARGETS, TARGETS, 1.0)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    assert trained.dtype == reported.dtype == wide
    torch.testing.assert_close(reported, cross_entropy(LOGITS.to(dtype).to(wide), TARGETS, reduction="none"))


@pytest.mark.usefixtures("users")
def test_a_loss_of_ones_own_is_trained_on_and_reported() -> None:
    criterion = Criterion(BossConfig(loss="./users.py:margin"))
    criterion.check(LOGITS, TARGETS)
    trained, reported = criterion(LOGITS, TARGETS, PARTNERS, 0.75)
    own, other = (((1 - LOGITS[range(6), labels]).clamp(min=0)) for labels in (TARGETS, PARTNERS))
    torch.testing.assert_close(reported, own)
    torch.testing.assert_close(trained, 0.75 * own + 0.25 * other)


@pytest.mark.usefixtures("users")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("scalar", r"returns shape \[\] for 6 instances; needed: \[6\].*\(\[B\]\)"),
        ("per_token", r"returns shape \[6, 3\] for 6 instances; needed: \[6\]"),
        ("number", r"returns shape \[\] for 6 instances; needed: \[6\]"),
        ("failing", r"failed: IndexError"),
    ],
)
def test_a_loss_that_is_not_one_number_for_each_instance_is_refused(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=rf"boss\.loss = './users\.py:{name}': {text}"):
        Criterion(BossConfig(loss=f"./users.py:{name}")).check(LOGITS, TARGETS)


def test_an_unknown_loss_gives_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"boss\.loss = 'cross_entropi'.*did you mean 'cross_entropy'"):
        Criterion(BossConfig(loss="cross_entropi"))


@pytest.mark.parametrize("targets", [torch.arange(6.0), torch.arange(18.0).reshape(6, 3)], ids=["numbers", "vectors"])
def test_squared_errors_are_those_of_torch_for_each_instance(targets: torch.Tensor) -> None:
    outputs = torch.randn(6, targets[0].numel(), generator=torch.Generator().manual_seed(1))
    expected = torch.nn.functional.mse_loss(outputs, targets.reshape(6, -1), reduction="none").mean(1)
    torch.testing.assert_close(mse(outputs, targets), expected)


def test_several_labels_each_are_a_binary_cross_entropy_for_each_instance() -> None:
    labels = torch.tensor([[0, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]])
    expected = torch.nn.functional.binary_cross_entropy_with_logits(LOGITS[:3], labels.float(), reduction="none")
    torch.testing.assert_close(bce(LOGITS[:3], labels), expected.mean(1))


@pytest.mark.parametrize(
    ("loss", "targets", "text"),
    [
        ("cross_entropy", torch.zeros(6), r"needs class numbers, the data set's targets are float32 \[\]; try mse"),
        ("cross_entropy", torch.zeros(6, 4, dtype=torch.int64), r"targets are int64 \[4\]; try mse, or bce"),
        ("mse", torch.zeros(6), r"needs as many outputs as targets.*outputs \[B, 4\] and targets \[B\]"),
        ("bce", torch.zeros(6, 3), r"outputs \[B, 4\] and targets \[B, 3\]"),
    ],
)
def test_a_loss_that_is_not_for_such_targets_is_refused(loss: str, targets: torch.Tensor, text: str) -> None:
    with pytest.raises(ConfigError, match=rf"boss\.loss = '{loss}'.*{text}"):
        Criterion(BossConfig(loss=loss)).check(LOGITS, targets)
