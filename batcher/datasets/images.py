"""Folders of images in torchvision's ImageFolder layout, decoded one by one with Pillow: no torch is needed for it."""

import os
import random
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from batcher.datasets.files import Strings
from batcher.plugin import Data
from proto.errors import ConfigError
from proto.types import Array, Int64s

if TYPE_CHECKING:
    from PIL.Image import Image

ENDINGS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
"""Files that are images, as in torchvision."""
VALIDATION = ("val", "valid", "validation")
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""ImageNet's, which everybody uses."""


def images(
    root: str, size: int = 224, augment: bool = True, min_area: float = 0.08, flip: bool = True, grey: bool = False
) -> Data:
    """Images [3, `size`, `size`] uint8 (`grey`: [1, ...]) from `root`/train/CLASS/..., and as validation and test split
    from `root`/val (or valid, validation) and `root`/test, where they are.

    With `augment` a training image is a random part of it, of at least `min_area` of its area, mirrored every other
    time (`flip`); without it, and in evaluations, it is the middle of the image, with its shorter side at 8/7 `size`.
    """
    return _data(root, Camera(size, augment, min_area, flip, grey), VALIDATION, ("test",))


def imagenet(root: str, size: int = 224, augment: bool = True, min_area: float = 0.08, flip: bool = True) -> Data:
    """As `images`, with `root`/val as the test split: ImageNet's own has no labels. `data.val_fraction` cuts a
    validation split from the training split."""
    archive = Path(root) / "ILSVRC2012_img_train.tar"
    if root and archive.is_file() and not (Path(root) / "train").is_dir():
        code = f"from torchvision.datasets import ImageNet as I; [I({root!r}, split) for split in ('train', 'val')]"
        raise ConfigError("data.root", root, f'holds the archives only; unpack them once: python -c "{code}"')
    return _data(root, Camera(size, augment, min_area, flip, False), (), ("val",))


def _data(root: str, camera: "Camera", validation: Sequence[str], test: Sequence[str]) -> Data:
    train = Path(root) / "train"
    names = sorted(entry.name for entry in os.scandir(train) if entry.is_dir()) if train.is_dir() else []
    if not root or not names:
        raise ConfigError("data.root", root, "needed: a folder with train/CLASS/IMAGE.jpg in it, a folder a class")

    def split(folders: Sequence[str], camera: Camera) -> ImageSplit | None:
        folder = next((Path(root) / name for name in folders if (Path(root) / name).is_dir()), None)
        return None if folder is None else ImageSplit(folder, names, camera)

    steady = camera.steady
    learned = split(["train"], camera)
    assert learned is not None
    grey = (sum(MEAN) / 3,), (sum(STD) / 3,)
    mean, std = grey if camera.grey else (MEAN, STD)
    return Data(learned, split(test, steady), split(validation, steady), class_names=names, mean=mean, std=std)


class Camera:
    """Which part of an image is seen, and how large."""

    def __init__(self, size: int, augment: bool, min_area: float, flip: bool, grey: bool) -> None:
        """Raises ConfigError for what cannot be."""
        if not 1 <= size <= 4096:
            raise ConfigError("data.args.size", size, "allowed: 1 to 4096 pixels")
        if not 0 < min_area <= 1:
            raise ConfigError("data.args.min_area", min_area, "allowed: over 0, up to 1")
        self.size, self.augment, self.min_area, self.flip, self.grey = size, augment, min_area, flip, grey

    @property
    def steady(self) -> "Camera":
        """This one without augmentation."""
        return Camera(self.size, False, self.min_area, self.flip, self.grey)

    def see(self, image: "Image") -> Array:
        """`image` as uint8 [C, size, size]; draws from `random` if it augments."""
        from PIL import Image

        image = image.convert("L" if self.grey else "RGB")
        box = self._random_box(*image.size) if self.augment else self._middle(*image.size)
        seen = np.asarray(image.resize((self.size, self.size), Image.Resampling.BILINEAR, box))
        if self.augment and self.flip and random.random() < 0.5:
            seen = seen[:, ::-1]
        return np.ascontiguousarray(seen[None] if self.grey else np.moveaxis(seen, -1, 0))

    def _middle(self, width: int, height: int) -> tuple[float, float, float, float]:
        side = min(width, height) * 7 / 8
        left, top = (width - side) / 2, (height - side) / 2
        return left, top, left + side, top + side

    def _random_box(self, width: int, height: int) -> tuple[float, float, float, float]:
        """As torchvision's RandomResizedCrop: area uniform, log of the ratio uniform in that of [3/4, 4/3]."""
        for _ in range(10):
            area = width * height * random.uniform(self.min_area, 1)
            ratio = float(np.exp(random.uniform(np.log(3 / 4), np.log(4 / 3))))
            wide, high = (area * ratio) ** 0.5, (area / ratio) ** 0.5
            if wide <= width and high <= height:
                left, top = random.uniform(0, width - wide), random.uniform(0, height - high)
                return left, top, left + wide, top + high
        return self._middle(width, height)


class ImageSplit:
    """The images under `folder`/CLASS, in torchvision's order; their paths are kept in one array."""

    def __init__(self, folder: Path, names: Sequence[str], camera: Camera) -> None:
        """Raises ConfigError when there is a class that is none of `names`."""
        here = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
        if strange := sorted(set(here) - set(names)):
            raise ConfigError("data.root", str(folder), f"{strange[0]!r} is none of the classes of the training split")
        self._folder, self._camera = folder, camera
        paths, targets = [], []
        for number, name in enumerate(names):
            for place, _, files in sorted(os.walk(folder / name, followlinks=True)):
                inside = [os.path.join(place, file) for file in sorted(files) if file.lower().endswith(ENDINGS)]
                paths += [os.path.relpath(path, folder) for path in inside]
                targets += [number] * len(inside)
        self.paths, self.targets = Strings(paths), np.asarray(targets, np.int64)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Array, int]:
        from PIL import Image

        with Image.open(self._folder / self.paths[index]) as image:
            return self._camera.see(image), int(self.targets[index])

    def labels(self, ids: Int64s) -> Int64s:
        return self.targets[ids]

    @property
    def as_evaluated(self) -> "ImageSplit":
        """The same images, seen as in evaluations."""
        same = copy(self)
        same._camera = self._camera.steady
        return same

    def describe(self, index: int) -> Array:
        seen, _ = self.as_evaluated[index]
        return seen[0] if self._camera.grey else np.moveaxis(seen, 0, -1)
