"""A folder of images of your own, read with torchvision: the plugin for it is the function `shapes`.

`autoassist launch examples/image_folder.toml` makes small images to train on; with `data.args.folder=PHOTOS` it takes
yours from PHOTOS/train/CLASS and PHOTOS/test/CLASS.
"""

import tempfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

from batcher.plugin import Data

CLASSES = ("circle", "square", "triangle")


def shapes(folder: str = "", size: int = 32, count: int = 450) -> Data:
    """Train and test split; without a `folder` of `count` and a third as many drawings in the temporary folder."""
    place = Path(folder) if folder else drawn(count)
    learn = v2.Compose([v2.RandomResizedCrop(size, scale=(0.6, 1.0)), v2.RandomHorizontalFlip(), v2.PILToTensor()])
    evaluate = v2.Compose([v2.Resize((size, size)), v2.PILToTensor()])
    train, test = ImageFolder(str(place / "train"), learn), ImageFolder(str(place / "test"), evaluate)
    return Data(train, test, mean=(0.25, 0.25, 0.25), std=(0.25, 0.25, 0.25))


def drawn(count: int) -> Path:
    """A folder with drawings of `CLASSES`, each at a place, of a size and in a colour of its own."""
    folder = Path(tempfile.gettempdir()) / f"autoassist-shapes-{count}"
    if (folder / "whole").exists():
        return folder
    rng = np.random.default_rng(0)
    for split, n in (("train", count), ("test", count // 3)):
        for number in range(n):
            name = CLASSES[number % len(CLASSES)]
            path = folder / split / name / f"{number:05}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            draw(name, rng).save(path)
    (folder / "whole").touch()
    return folder


def draw(name: str, rng: np.random.Generator) -> Image.Image:
    """One drawing, 40x40 pixels, on noise."""
    image = Image.fromarray(rng.integers(0, 96, (40, 40, 3)).astype(np.uint8))
    pen = ImageDraw.Draw(image)
    colour = tuple(rng.integers(128, 256, 3).tolist())
    radius = int(rng.integers(8, 14))
    x, y = (int(rng.integers(radius, 40 - radius)) for _ in range(2))
    if name == "circle":
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), colour)
    elif name == "square":
        pen.rectangle((x - radius, y - radius, x + radius, y + radius), colour)
    else:
        pen.polygon([(x, y - radius), (x - radius, y + radius), (x + radius, y + radius)], colour)
    return image
