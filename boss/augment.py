"""Augmentation of images, a batch at a time, on the device: random crop, horizontal flip, cutout.

What happens to an instance depends on the run's seed, its pass and its id, and on nothing else: not on the batch it is
in nor on its place there. Its numbers are those of a SplitMix64 generator (Steele, Lea and Flood 2014) of its own,
computed for all instances at once on the host and brought over in one copy, for which nobody waits.
"""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from boss.config import BossConfig
from proto.control import DataSpec
from proto.errors import ConfigError
from proto.types import Int64s

UInt64s = npt.NDArray[np.uint64]

PURPOSE = np.uint64(0x6372_6F70)
"""Keeps these draws apart from all others of the run's seed."""
GAMMA = np.uint64(0x9E37_79B9_7F4A_7C15)
"""SplitMix64's step, odd and near 2**64 divided by the golden ratio."""
KEYS = ("crop", "flip", "cutout")
TOP, LEFT, FLIP, ROW, COLUMN = range(5)
"""What the numbers of an instance are for."""


class Augmenter:
    """What `boss.crop`, `boss.flip` and `boss.cutout` ask for."""

    def __init__(self, config: BossConfig, spec: DataSpec, seed: int) -> None:
        """Raises ConfigError when inputs of `spec` cannot be augmented so."""
        self.crop, self.flip, self.cutout = config.crop, config.flip, config.cutout
        self._seed = seed
        self._check(spec)
        height, width = spec.input_shape[-2:]
        # Indexed by purpose: each number of an instance is one of so many.
        self._choices = np.array([2 * self.crop + 1, 2 * self.crop + 1, 2, height, width], np.uint64)

    def _check(self, spec: DataSpec) -> None:
        shape, dtype = list(spec.input_shape), spec.input_dtype
        key, value = next((key, value) for key in KEYS if (value := getattr(self, key)))
        if len(shape) not in (2, 3) or (dtype != "uint8" and not dtype.startswith("float")):
            found = f"the data set has {shape} {dtype}; leave boss.{key} out"
            raise ConfigError(f"boss.{key}", value, f"needs images [C, H, W] or [H, W], uint8 or float: {found}")
        side = min(shape[-2:])
        for key, value in (("crop", self.crop), ("cutout", self.cutout)):
            if value >= side:
                raise ConfigError(f"boss.{key}", value, f"leaves nothing of {shape}; allowed: 0 to {side - 1}")

    def draw(self, passes_of: Int64s, ids: Int64s) -> Int64s:
        """What happens to the instances `ids` int64 [B] in their passes int64 [B]: int64 [5, B], a row for each
        purpose.

        Rows `TOP` and `LEFT` are 0 to 2 x crop, `FLIP` 0 or 1, `ROW` and `COLUMN` the centre of the cut.
        """
        numbers = random_numbers(self._seed, passes_of, ids, len(self._choices))
        # Multiply and shift (Lemire 2019) in place of a modulo; its bias, choices / 2**32, is no matter here.
        return ((numbers >> np.uint64(32)) * self._choices[:, None] >> np.uint64(32)).astype(np.int64)

    def move(self, images: Tensor, drawn: Tensor) -> Tensor:
        """Crops and flips `images` [B, C, H, W] or [B, H, W] as `drawn` [5, B] says, before they are normalised."""
        if self.crop:
            images = cropped(images, self.crop, drawn[TOP], drawn[LEFT])
        return flipped(images, drawn[FLIP] == 1) if self.flip else images

    def cut(self, images: Tensor, drawn: Tensor) -> Tensor:
        """Cuts a square out of `images`, after they are normalised."""
        return cut_out(images, self.cutout, drawn[ROW], drawn[COLUMN]) if self.cutout else images


def make_augmenter(config: BossConfig, spec: DataSpec, seed: int) -> Augmenter | None:
    """What `config` asks for, if anything. Raises ConfigError when inputs of `spec` cannot be augmented so."""
    return Augmenter(config, spec, seed) if any(getattr(config, key) for key in KEYS) else None


def random_numbers(seed: int, passes_of: Int64s, ids: Int64s, count: int) -> UInt64s:
    """The first `count` numbers, uint64 [count, B], of the generator of each instance `ids` int64 [B] in its pass."""
    state = mixed(np.full(1, seed, np.uint64) + PURPOSE)
    for number in (passes_of, ids):
        state = mixed(state + number.view(np.uint64) * GAMMA)
    steps = np.arange(1, count + 1, dtype=np.uint64) * GAMMA
    return mixed(state + steps[:, None])


def mixed(numbers: UInt64s) -> UInt64s:
    """SplitMix64's finaliser: every bit of each number, uint64, has a say in every bit of the result. Arithmetic is
    modulo 2**64."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    return numbers ^ (numbers >> np.uint64(31))


def cropped(images: Tensor, padding: int, top: Tensor, left: Tensor) -> Tensor:
    """`images` [B, ..., H, W] with a border of `padding` zeros, cut to H x W from row `top`, column `left`, int64 [B].

    Zero is black in uint8 images, which are not normalised yet: the border that torchvision's RandomCrop(32, padding=4)
    gives, as is usual for CIFAR (He et al. 2016). In float images it is whatever the data set means by 0.
    """
    height, width = images.shape[-2:]
    padded = functional.pad(images, (padding,) * 4)
    # Every crop there is, as views [B, 2 x padding + 1, 2 x padding + 1, ..., H, W]; the index copies one for each.
    crops = padded.unfold(-2, height, 1).unfold(-2, width, 1).movedim((-4, -3), (1, 2))
    return crops[torch.arange(len(images), device=images.device), top, left]


def flipped(images: Tensor, which: Tensor) -> Tensor:
    """`images` [B, ..., H, W], those of `which` bool [B] with left and right exchanged."""
    return torch.where(_each(which, images), images.flip(-1), images)


def cut_out(images: Tensor, side: int, row: Tensor, column: Tensor) -> Tensor:
    """`images` [B, ..., H, W] with zeros in a square of `side` pixels around (row, column) int64 [B], less at borders.

    In normalised images zero is the data set's mean, as in DeVries and Taylor 2017.
    """
    height, width = images.shape[-2:]
    rows, columns = _within(height, side, row), _within(width, side, column)
    square = rows[:, :, None] & columns[:, None, :]
    return images.masked_fill(square.view(len(images), *[1] * (images.ndim - 3), height, width), 0)


def _within(size: int, side: int, centre: Tensor) -> Tensor:
    """Which of 0 to size - 1 are among the `side` ones around `centre` int64 [B]: bool [B, size]."""
    from_first = torch.arange(size, device=centre.device) - (centre - side // 2)[:, None]
    return (from_first >= 0) & (from_first < side)


def _each(values: Tensor, images: Tensor) -> Tensor:
    """`values` [B] in the shape that broadcasts over `images` [B, ...]."""
    return values.view(-1, *[1] * (images.ndim - 1))
