"""Data sets that Hugging Face `datasets` has saved to disk (`save_to_disk`); needs the extra `hf`."""

from pathlib import Path
from typing import Any

import numpy as np

from batcher.datasets.files import Classes
from batcher.datasets.text import TokenSplit, Vocabulary
from batcher.plugin import Data, Split
from proto.errors import ConfigError
from proto.types import Array, Int64s

VALIDATION = ("validation", "val", "valid")


def huggingface(
    root: str,
    input: str = "",
    label: str = "label",
    vocabulary: int = 20_000,
    max_length: int = 512,
) -> Data:
    """The splits train, validation (or val, valid) and test of the data set in the folder `root`, or one split alone.

    `input` is the column that is learned from (default: the only one beside `label`): images, which become uint8
    [C, H, W]; texts, which become token ids as in the data set "text"; or numbers.
    """
    if not root:
        raise ConfigError("data.root", root, "needed: the folder that save_to_disk has written")
    try:
        from datasets import DatasetDict, load_from_disk
    except ModuleNotFoundError as error:
        problem = f"needs the package {error.name!r}: pip install -e '.[hf]' in the clone of AutoAssist"
        raise ConfigError("data.name", "huggingface", problem) from None
    try:
        loaded = load_from_disk(root)
    except (FileNotFoundError, ValueError, OSError) as error:
        problem = f"is no folder that save_to_disk has written, or not whole: {error}"
        raise ConfigError("data.root", root, problem) from None
    tables = dict(loaded) if isinstance(loaded, DatasetDict) else {"train": loaded}
    if "train" not in tables:
        raise ConfigError("data.root", root, f"has no split 'train'; splits there: {', '.join(tables)}")
    train = tables["train"]
    column = _column(train, input, label, Path(root))
    feature = train.features[label]
    classes = None if hasattr(feature, "names") else _classes(train, label)
    is_text = getattr(train.features[column], "dtype", "") in ("string", "large_string")
    words = Vocabulary(train[column], vocabulary) if is_text else None

    def split(*names: str) -> Split | None:
        table = next((tables[name] for name in names if name in tables), None)
        if table is None:
            return None
        given = table[label]
        labels = np.asarray(given) if classes is None else classes.numbers(list(given), names[0])
        if words is not None:
            return TokenSplit(list(table[column]), labels, words, max_length)
        return ColumnSplit(table, column, labels)

    learned = split("train")
    assert learned is not None
    names = list(feature.names) if hasattr(feature, "names") else classes.names if classes else []
    size = len(words) if words else 0
    return Data(learned, split("test"), split(*VALIDATION), class_names=names, vocabulary=size)


def _column(table: Any, input: str, label: str, root: Path) -> str:
    """The column that is learned from. Raises ConfigError with the columns there are."""
    there = ", ".join(table.column_names)
    if label not in table.column_names:
        raise ConfigError("data.args.label", label, f"{root} has no such column; columns there: {there}")
    others = [name for name in table.column_names if name != label]
    if (input and input not in others) or (not input and len(others) != 1):
        raise ConfigError(
            "data.args.input", input, f"needed: one of the columns of {root} that is learned from: {there}"
        )
    return input or others[0]


def _classes(table: Any, label: str) -> Classes | None:
    """Class numbers where labels are texts; None where they are numbers already."""
    return Classes(list(table[label])) if isinstance(table[0][label], str) else None


class ColumnSplit:
    """The rows of a table, one input column and labels [N]."""

    def __init__(self, table: Any, column: str, labels: Array) -> None:
        self._table, self._column, self.targets = table, column, labels

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Array, Any]:
        value = self._table[int(index)][self._column]
        array = np.asarray(value)
        if hasattr(value, "mode"):  # a Pillow image: [H, W] or [H, W, C]
            array = array[None] if array.ndim == 2 else np.moveaxis(array, -1, 0)
        return np.ascontiguousarray(array), self.targets[index].item()

    def labels(self, ids: Int64s) -> Array:
        return self.targets[ids]
