"""What every data set that ships, and every example plugin, must be."""

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import made_data
import numpy as np
import pytest

from batcher import mistakes
from batcher.check import all_labels
from batcher.config import DATASETS, DataConfig
from batcher.decode import kept_random_state, seed_all
from batcher.offers import in_offers
from batcher.plugin import Data, Subset, load
from batcher.source import Source

ROOT = Path(__file__).parents[2]
EXAMPLES = {
    "examples/image_folder.py": DataConfig(name=f"{ROOT}/examples/image_folder.py:shapes", args={"count": 24}),
    "examples/table.py": DataConfig(name=f"{ROOT}/examples/table.py:tumours"),
    "docs/plugins.md": DataConfig(name="./plugin.py:rings"),
}
BUILTINS = [name for name, builtin in DATASETS.items() if builtin.origin == "built-in"]


@pytest.fixture(scope="module", params=[*BUILTINS, *EXAMPLES])
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Data]:
    name: str = request.param
    folder = tmp_path_factory.mktemp("data")
    if name == "huggingface" and find_spec("datasets") is None:
        pytest.skip("Hugging Face datasets is not installed (the extra hf)")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.setenv("TMPDIR", str(folder))
        patch.chdir(folder)
        if name == "docs/plugins.md":
            (folder / "plugin.py").write_text(example())
        yield load(EXAMPLES[name] if name in EXAMPLES else made_data.made(name, folder))


def example() -> str:
    """The first piece of Python in docs/plugins.md: the complete example."""
    found = re.search(r"```python\n(.*?)```", (ROOT / "docs/plugins.md").read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def splits(data: Data) -> list[tuple[str, Any]]:
    parts = {"train": data.train, "validation": data.validation, "test": data.test}
    return [(name, split) for name, split in parts.items() if split is not None]


def test_it_has_a_test_split_and_its_classes_are_named_by_texts(data: Data) -> None:
    assert data.test is not None
    assert all(isinstance(name, str) for name in data.class_names)


def test_no_mistake_is_found_in_any_of_its_splits(data: Data) -> None:
    with kept_random_state():
        for name, split in splits(data):
            seen, found = mistakes.read(name, split, 0)
            assert found == []
            assert list(mistakes.in_shapes(name, split, seen)) == []
            assert list(mistakes.in_labels(name, split, seen, len(data.class_names))) == []
            assert list(mistakes.in_randomness(name, split, seen, 0)) == []
            assert list(in_offers(name, split, seen)) == []


def test_labels_are_known_without_reading_an_item(data: Data) -> None:
    for _, split in splits(data):
        labels = all_labels(split)
        assert isinstance(labels, np.ndarray)
        assert labels.shape == (len(split),)
        assert labels.dtype.kind in "iu"


def test_there_is_nothing_after_the_last_instance(data: Data) -> None:
    for _, split in splits(data):
        split[len(split) - 1]
        with pytest.raises(IndexError):
            split[len(split)]


def test_inputs_that_are_images_have_the_moments_that_normalise_them(data: Data) -> None:
    inputs = np.asarray(data.train[0][0])
    images = inputs.dtype == np.uint8 and inputs.ndim == 3
    assert len(data.mean) == len(data.std) == (inputs.shape[0] if images else 0)
    assert all(0 < value < 1 for value in (*data.mean, *data.std))


def test_a_batch_of_it_travels_and_holds_its_labels(data: Data) -> None:
    for name, split in splits(data):
        source = Source(split, name)
        asked = np.arange(len(split))[::-2]
        ids, arrays = source.take(asked)
        assert ids.tolist() == asked.tolist()
        assert arrays["inputs"].dtype in (np.uint8, np.int64, np.float32)
        assert arrays["inputs"].std() > 0
        labels = all_labels(split)
        assert isinstance(labels, np.ndarray)
        assert arrays["targets"].tolist() == labels[ids].tolist()
        again = source.take(asked)[1]
        assert all(np.array_equal(array, again[key]) for key, array in arrays.items())


def test_a_part_of_it_offers_the_same(data: Data) -> None:
    ids = np.arange(len(data.train))[::-3]
    part = Subset(data.train, ids)
    some = np.array([2, 0])
    for offer in ("labels", "features", "lengths"):
        if asked := getattr(data.train, offer, None):
            np.testing.assert_array_equal(getattr(part, offer)(some), asked(ids[some]))
        else:
            assert not hasattr(part, offer)
    with kept_random_state():
        seed_all(0)
        mine = np.asarray(part[2][0])
        seed_all(0)
        np.testing.assert_array_equal(mine, np.asarray(data.train[int(ids[2])][0]))
    if hasattr(data.train, "describe"):
        assert np.array_equal(part.describe(2), data.train.describe(int(ids[2])))
