"""What augmentation does to an image, and that it depends on seed, pass and id alone."""

from typing import Any

import numpy as np
import pytest
import torch
from toys import batch, batches, numbered, opened, spec

from boss.augment import FLIP, GAMMA, LEFT, TOP, Augmenter, cropped, cut_out, flipped, mixed, random_numbers
from boss.config import BossConfig
from boss.step import Preparer
from boss.trainer import Trainer
from proto.config import RunConfig
from proto.errors import ConfigError

CPU = torch.device("cpu")
RNG = np.random.default_rng(0)
CIFAR = spec(input_shape=(3, 8, 10), input_dtype="uint8", mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))
GREY = spec(input_shape=(8, 10), input_dtype="uint8", mean=(0.5,), std=(0.25,))
FLOATS = spec(input_shape=(3, 8, 10))
ALL = {"crop": 2, "flip": True, "cutout": 3}


def augmenter(of: Any = CIFAR, seed: int = 0, **config: Any) -> Augmenter:
    return Augmenter(BossConfig(**(config or ALL)), of, seed)


def images(of: Any, n: int) -> Any:
    shape = (n, *of.input_shape)
    if of.input_dtype == "uint8":
        return RNG.integers(1, 256, shape, dtype=np.uint8)
    return RNG.uniform(1, 2, shape).astype(np.float32)


def prepared(of: Any, ids: Any, inputs: Any, passes: Any = 0, device: torch.device = CPU, **how: Any) -> torch.Tensor:
    """`inputs` as the model gets them."""
    passes_of = np.broadcast_to(np.int64(passes), len(ids)).copy()
    prepare = Preparer(of, device, augmenter=augmenter(of))
    return prepare(batch(ids, inputs=inputs, passes_of=passes_of, **how))[0]


# -- the arithmetic


def test_the_numbers_are_those_of_splitmix64() -> None:
    # From the generator's published test: state 1234567, the first three numbers.
    state = np.uint64(1234567)
    found = mixed(np.full(3, state) + np.arange(1, 4, dtype=np.uint64) * GAMMA)
    assert found.tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@pytest.mark.parametrize("shape", [(4, 3, 5, 6), (4, 5, 6)])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_a_crop_is_a_window_of_the_image_with_a_border_of_zeros(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    given = torch.randint(1, 256, shape).to(dtype)
    top, left = torch.tensor([0, 1, 4, 2]), torch.tensor([4, 0, 3, 2])
    found = cropped(given, 2, top, left)
    for i in range(4):
        for row in range(5):
            for column in range(6):
                y, x = row + int(top[i]) - 2, column + int(left[i]) - 2
                inside = 0 <= y < 5 and 0 <= x < 6
                expected = given[i, ..., y, x] if inside else torch.zeros_like(given[i, ..., 0, 0])
                assert torch.equal(found[i, ..., row, column], expected)
    assert found.dtype == dtype
    assert torch.equal(found[3], given[3]), "the middle is the image itself"


def test_flipping_exchanges_left_and_right_of_those_named() -> None:
    given = torch.arange(12.0).view(2, 1, 2, 3)
    found = flipped(given, torch.tensor([False, True]))
    assert found[0].tolist() == given[0].tolist()
    assert found[1].tolist() == [[[8.0, 7.0, 6.0], [11.0, 10.0, 9.0]]]


@pytest.mark.parametrize("side", [1, 2, 3, 4])
@pytest.mark.parametrize("shape", [(2, 3, 8, 10), (2, 8, 10)])
def test_a_cut_is_a_square_less_what_lies_beyond_the_border(side: int, shape: tuple[int, ...]) -> None:
    found = cut_out(torch.ones(shape), side, torch.tensor([4, 0]), torch.tensor([5, 9]))
    gone = (found == 0).flatten(1).sum(1).tolist()
    channels = 3 if len(shape) == 4 else 1
    begin, end = -(side // 2), side - side // 2
    assert gone == [side * side * channels, end * (1 - begin) * channels]


# -- on what it depends


@pytest.mark.parametrize("of", [CIFAR, GREY, FLOATS])
def test_an_instance_gets_the_same_bytes_in_a_batch_of_any_size_at_any_place(of: Any) -> None:
    ids, inputs = np.arange(40) * 1_000_003, images(of, 40)
    passes = np.arange(40) // 13
    whole = prepared(of, ids, inputs, passes)
    order = RNG.permutation(40)
    for size in (1, 7, 40):
        for start in range(0, 40, size):
            rows = order[start : start + size]
            assert torch.equal(prepared(of, ids[rows], inputs[rows], passes[rows]), whole[torch.from_numpy(rows)])


def test_another_pass_seed_or_id_is_another_draw() -> None:
    ids, zeros = np.arange(1000), np.zeros(1000, np.int64)
    draws = [
        augmenter(seed=seed).draw(zeros + passes, ids + more)
        for seed, passes, more in ((0, 0, 0), (0, 1, 0), (1, 0, 0), (0, 0, 1))
    ]
    for i, one in enumerate(draws):
        for other in draws[:i]:
            assert 0.1 < np.mean(one[TOP] == other[TOP]) < 0.3, "a fifth by chance"
    large = augmenter(seed=2**63 - 1).draw(zeros[:1] + 2**62, ids[:1] + 2**62)
    assert (large >= 0).all()


def test_a_stream_is_augmented_alike_whatever_its_batch_size() -> None:
    """The pass of each instance is that of the Batcher, also where a batch straddles two."""
    found: dict[int, dict[tuple[int, int], list[int]]] = {}
    for size in (7, 32):
        stream = batches(opened(numbered(100), batch_size=size, budget=3.0))
        rows = [augmenter().draw(one.passes_of, one.ids) for one in stream]
        keys = [key for one in stream for key in zip(one.passes_of.tolist(), one.ids.tolist(), strict=True)]
        found[size] = dict(zip(keys, np.concatenate(rows, 1).T.tolist(), strict=True))
        assert {passes for passes, _ in keys} == {0, 1, 2}
    assert len(found[7]) == 300
    assert found[7] == found[32]


def test_every_offset_occurs_equally_often_and_half_are_flipped() -> None:
    drawn = augmenter().draw(np.zeros(20_000, np.int64), np.arange(20_000))
    for purpose, choices in ((TOP, 5), (LEFT, 5), (FLIP, 2), (3, 8), (4, 10)):
        counts = np.bincount(drawn[purpose], minlength=choices)
        assert len(counts) == choices
        expected = 20_000 / choices
        assert np.abs(counts - expected).max() < 5 * expected**0.5
    together = np.bincount(drawn[TOP] * 10 + drawn[LEFT] * 2 + drawn[FLIP], minlength=50)
    assert np.abs(together - 400).max() < 5 * 400**0.5, "independent of one another"


def test_neighbouring_ids_and_passes_have_nothing_in_common() -> None:
    one = random_numbers(0, np.zeros(2000, np.int64), np.arange(2000), 2)
    other = random_numbers(0, np.arange(2000), np.zeros(2000, np.int64), 2)
    bits = np.unpackbits(np.concatenate([one, other]).view(np.uint8).reshape(4, -1, 8), axis=2).reshape(4, 2000, 64)
    assert np.abs(np.corrcoef(bits.reshape(4, -1)) - np.eye(4)).max() < 0.02
    assert np.abs(bits.mean(1) - 0.5).max() < 0.06


# -- where it happens


@pytest.mark.parametrize("of", [CIFAR, GREY])
def test_borders_are_black_and_cuts_are_the_mean(of: Any) -> None:
    inputs = np.full((50, *of.input_shape), 255, np.uint8)
    found = prepared(of, np.arange(50), inputs)
    shape = (-1, 1, 1) if of is CIFAR else ()
    mean, std = np.reshape(of.mean, shape), np.reshape(of.std, shape)
    black, white = -mean / std, (1 - mean) / std
    near = [np.isclose(found.numpy(), value, atol=1e-5) for value in (black, white, np.zeros_like(mean))]
    assert np.logical_or.reduce(near).all()
    assert all(kind.any() for kind in near)


def test_evaluations_are_not_augmented() -> None:
    inputs = images(CIFAR, 6)
    plain = Preparer(CIFAR, CPU)(batch(range(6), inputs=inputs))[0]
    for kind in ("validation", "test"):
        assert torch.equal(prepared(CIFAR, np.arange(6), inputs, kind=kind), plain)
    assert not torch.equal(prepared(CIFAR, np.arange(6), inputs), plain)


@pytest.mark.parametrize(
    ("of", "config", "text"),
    [
        (spec(), {"flip": True}, r"boss\.flip = True: needs images .* the data set has \[6\] float32; leave"),
        (spec(input_shape=(8, 8), input_dtype="int64"), {"crop": 1}, r"boss\.crop = 1: .* \[8, 8\] int64; leave"),
        (spec(input_shape=(1, 8, 6)), {"crop": 6}, r"boss\.crop = 6: leaves nothing of .* allowed: 0 to 5"),
        (spec(input_shape=(1, 8, 6)), {"cutout": 9}, r"boss\.cutout = 9: leaves nothing"),
    ],
)
def test_what_cannot_be_augmented_is_refused_before_training(of: Any, config: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Trainer(RunConfig(), BossConfig(model="linear", device="cpu", **config), of)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("of", [CIFAR, GREY, FLOATS])
def test_the_gpu_gives_what_the_cpu_gives(of: Any) -> None:
    ids, inputs = np.arange(64), images(of, 64)
    on_gpu = prepared(of, ids, inputs, 3, torch.device("cuda"))
    torch.testing.assert_close(on_gpu.cpu(), prepared(of, ids, inputs, 3))
