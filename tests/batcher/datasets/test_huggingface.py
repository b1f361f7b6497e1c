from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from batcher.config import DataConfig
from batcher.plugin import Data, load
from proto.errors import ConfigError

hf = pytest.importorskip("datasets", reason="Hugging Face datasets is not installed (the extra hf)")
pytest.importorskip("tqdm").tqdm.monitor_interval = 0  # no thread beside its bars


def saved(folder: Path, columns: dict[str, Any], features: Any = None, **args: Any) -> Data:
    """The data set of `columns`, saved as splits train and test and read again."""
    split = hf.Dataset.from_dict(columns, features=features)
    hf.DatasetDict({"train": split, "test": split}).save_to_disk(str(folder))
    return load(DataConfig(name="huggingface", root=str(folder), args=args))


def test_images_become_channels_first_and_classes_have_their_names(tmp_path: Path) -> None:
    pixels = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    features = hf.Features({"image": hf.Image(), "label": hf.ClassLabel(names=["cat", "dog"])})
    columns = {"image": [Image.fromarray(image) for image in pixels], "label": [1, 0]}
    data = saved(tmp_path, columns, features)
    image, label = data.train[1]
    np.testing.assert_array_equal(image, np.moveaxis(pixels[1], -1, 0))
    assert (image.dtype, label) == (np.uint8, 0)
    assert list(data.class_names) == ["cat", "dog"]


def test_texts_become_token_ids_and_labels_that_are_texts_are_numbered(tmp_path: Path) -> None:
    columns = {"text": ["b a b", "a b", "c"], "kind": ["x", "y", "x"], "other": [1, 2, 3]}
    data = saved(tmp_path, columns, input="text", label="kind")
    assert [data.train[index][0].tolist() for index in range(3)] == [[2, 3, 2], [3, 2], [4]]
    assert [data.train[index][1] for index in range(3)] == [0, 1, 0]
    assert list(data.class_names) == ["x", "y"]
    assert data.vocabulary == 5


def test_one_split_alone_is_the_training_split(tmp_path: Path) -> None:
    hf.Dataset.from_dict({"x": [[1.5, 2.5], [0.0, 1.0]], "label": [0, 1]}).save_to_disk(str(tmp_path))
    data = load(DataConfig(name="huggingface", root=str(tmp_path)))
    assert data.train[0][0].tolist() == [1.5, 2.5]
    assert data.test is None


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"label": "labels"}, r"data\.args\.label = 'labels': .* has no such column; columns there: x, y, label"),
        ({}, r"data\.args\.input = '': needed: one of the columns .*: x, y, label"),
        ({"input": "z"}, r"data\.args\.input = 'z'"),
    ],
)
def test_a_missing_column_is_named_with_those_there_are(args: dict[str, Any], text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=text):
        saved(tmp_path, {"x": [1], "y": [2], "label": [0]}, **args)


def test_a_folder_that_save_to_disk_has_not_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.root = .*no folder that save_to_disk has written"):
        load(DataConfig(name="huggingface", root=str(tmp_path)))
