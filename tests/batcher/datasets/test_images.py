"""Folders of images: torchvision's layout and order, without torch."""

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import made_data
import numpy as np
import pytest
from PIL import Image

from batcher.config import BatcherConfig, DataConfig, PolicyConfig
from batcher.core import BatcherCore
from batcher.datasets.images import Camera, ImageSplit
from batcher.plugin import load
from batcher.workers import Pool
from proto.batches import End, Open
from proto.config import RunConfig
from proto.errors import ConfigError
from proto.transport import Layout


def lend(slot: int, layout: Layout) -> dict[str, Any]:
    return {name: np.empty(shape, dtype) for name, (shape, dtype) in layout.items()}


def test_instances_and_classes_are_those_of_torchvision(tmp_path: Path) -> None:
    torchvision = pytest.importorskip("torchvision")
    made_data.image_files(tmp_path, ("train", "val", "test"))
    (tmp_path / "train" / "dark" / "more").mkdir()
    Image.new("L", (9, 9)).save(tmp_path / "train" / "dark" / "more" / "Z.PNG")
    (tmp_path / "train" / "dark" / "notes.txt").touch()
    data = load(DataConfig(name="images", root=str(tmp_path), args={"size": 8}))
    theirs = torchvision.datasets.ImageFolder(str(tmp_path / "train"))
    assert isinstance(data.train, ImageSplit)
    paths = [str(tmp_path / "train" / path) for path in data.train.paths]
    assert list(zip(paths, data.train.targets.tolist(), strict=True)) == theirs.samples
    assert list(data.class_names) == theirs.classes
    assert data.validation is not None
    assert data.test is not None
    assert (len(data.validation), len(data.test)) == (24, 24)


def test_evaluations_see_the_middle_of_an_image_and_nothing_random(tmp_path: Path) -> None:
    made_data.image_files(tmp_path)
    pixels = np.zeros((64, 96, 3), np.uint8)
    pixels[2:62, 18:78] = (10, 20, 30)  # the middle 56 and what is interpolated with
    place = tmp_path / "test" / "dark"
    Image.fromarray(pixels).save(place / "00.png")
    data = load(DataConfig(name="images", root=str(tmp_path), args={"size": 14}))
    assert data.test is not None
    image, label = data.test[0]
    assert (image.shape, image.dtype, label) == ((3, 14, 14), np.uint8, 0)
    assert (image == np.array([10, 20, 30])[:, None, None]).all()
    train = load(DataConfig(name="images", root=str(tmp_path), args={"augment": False})).train
    assert np.array_equal(train[3][0], train[3][0])


def test_a_validation_split_cut_off_the_training_split_is_not_augmented(tmp_path: Path) -> None:
    made_data.image_files(tmp_path)
    whole = load(DataConfig(name="images", root=str(tmp_path), args={"size": 8, "augment": False})).train
    data = load(DataConfig(name="images", root=str(tmp_path), args={"size": 8}, val_fraction=0.25))
    assert data.validation is not None
    plain = {whole[index][0].tobytes() for index in range(24)}
    assert len(data.validation) == 6
    assert {data.validation[index][0].tobytes() for index in range(6)} <= plain
    random.seed(0)
    assert not {data.train[index][0].tobytes() for index in range(18)} & plain


def test_training_sees_random_parts_of_at_least_the_area_asked_for() -> None:
    y, x = np.mgrid[:100, :200]
    image = Image.fromarray(np.stack([x, y, 0 * x], -1).astype(np.uint8))
    random.seed(0)
    areas, mirrored = [], 0
    for _ in range(200):
        seen = Camera(32, True, 0.25, True, False).see(image).astype(int)
        width, height = abs(seen[0, 0, -1] - seen[0, 0, 0]), abs(seen[1, -1, 0] - seen[1, 0, 0])
        mirrored += seen[0, 0, -1] < seen[0, 0, 0]
        areas.append(width * height / (100 * 200) * (32 / 31) ** 2)
    assert 0.23 < min(areas) < 0.35
    assert 0.6 < max(areas) < 1.02
    assert 70 < mirrored < 130
    unflipped = [Camera(32, True, 0.25, False, False).see(image).astype(int) for _ in range(50)]
    assert all(seen[0, 0, -1] > seen[0, 0, 0] for seen in unflipped)


def test_grey_images_have_one_channel(tmp_path: Path) -> None:
    made_data.image_files(tmp_path)
    data = load(DataConfig(name="images", root=str(tmp_path), args={"size": 8, "grey": True}))
    assert data.train[0][0].shape == (1, 8, 8)
    assert len(data.mean) == len(data.std) == 1


def test_imagenet_is_tested_on_its_val_folder(tmp_path: Path) -> None:
    made_data.image_files(tmp_path, ("train", "val"))
    data = load(DataConfig(name="imagenet", root=str(tmp_path), args={"size": 8}))
    assert data.validation is None
    assert data.test is not None
    assert len(data.test) == 24


def test_archives_alone_are_refused_with_what_unpacks_them(tmp_path: Path) -> None:
    (tmp_path / "ILSVRC2012_img_train.tar").touch()
    with pytest.raises(ConfigError, match=r"archives only; unpack them once: python -c .*ImageNet"):
        load(DataConfig(name="imagenet", root=str(tmp_path)))


@pytest.mark.parametrize(
    ("args", "text"),
    [({"size": 0}, r"data\.args\.size = 0"), ({"min_area": 0.0}, r"data\.args\.min_area = 0\.0")],
)
def test_sizes_that_cannot_be_are_refused(args: dict[str, float], text: str, tmp_path: Path) -> None:
    made_data.image_files(tmp_path)
    with pytest.raises(ConfigError, match=text):
        load(DataConfig(name="images", root=str(tmp_path), args=args))


def test_a_folder_without_images_and_a_strange_class_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.root = .*needed: a folder with train/CLASS/IMAGE\.jpg"):
        load(DataConfig(name="images", root=str(tmp_path)))
    made_data.image_files(tmp_path)
    (tmp_path / "test" / "strange").mkdir()
    with pytest.raises(ConfigError, match=r"'strange' is none of the classes of the training split"):
        load(DataConfig(name="images", root=str(tmp_path)))


def test_an_image_that_cannot_be_decoded_is_skipped_and_counted(tmp_path: Path) -> None:
    made_data.image_files(tmp_path)
    torn = tmp_path / "train" / "light" / "03.png"
    torn.write_bytes(torn.read_bytes()[:200])
    config = DataConfig(name="images", root=str(tmp_path), args={"size": 8})
    core = BatcherCore(
        RunConfig(budget=1.0), BatcherConfig(batch_size=6), PolicyConfig(name="uniform"), load(config), "images"
    )
    core.open(Open(incarnation=0, rank=0, slots=1, eval_every=0.0))
    for _ in range(4):
        core.next(0, 0, lend)
    assert core.metrics()["skipped_ids"] == (15,)
    assert "truncated" in str(core.metrics()["skipped_errors"])


def test_augmented_bytes_do_not_depend_on_who_decodes_them_and_differ_by_pass(tmp_path: Path) -> None:
    made_data.image_files(tmp_path)
    config = DataConfig(name="images", root=str(tmp_path), args={"size": 8})

    def stream(workers: int) -> tuple[list[int], list[bytes]]:
        pools = []
        core = BatcherCore(
            RunConfig(budget=2.0),
            BatcherConfig(batch_size=6, workers=workers),
            PolicyConfig(name="uniform"),
            load(config),
            "images",
            start_workers=lambda sources, rows: workers and pools.append(Pool(config, 0, sources, rows, workers)),
        )
        core.open(Open(incarnation=0, rank=0, slots=1, eval_every=0.0))
        found: tuple[list[int], list[bytes]] = [], []
        while not isinstance((batch := core.next(0, 0, lend)[0]), End):
            if batch.kind == "train":
                found[0].extend(batch.ids.tolist())
                found[1].extend(image.tobytes() for image in batch.arrays["inputs"])
        for pool in pools:
            pool.close()
        return found

    ids, images = stream(0)
    assert len(ids) == 48
    assert all(images[k] != images[24 + ids[24:].index(ids[k])] for k in range(24))
    for workers in (1, 4):
        assert stream(workers) == (ids, images)


def test_no_torch_is_needed(tmp_path: Path) -> None:
    made_data.image_files(tmp_path)
    code = f"""
import sys
from batcher.config import DataConfig
from batcher.plugin import load
from batcher.workers import Pool
load(DataConfig(name="images", root={str(tmp_path)!r})).train[0]
heavy = {{"torch", "torchvision", "sklearn", "scipy"}} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True)
