"""Files in the LIBSVM format (`label index:value ...`), sparse in memory until they are in a batch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from batcher.datasets.arrays import checked
from batcher.datasets.files import Classes, found, opened, reading
from batcher.plugin import Data
from proto.types import Array, Float32s, Int64s

FEATURES = 256
"""Features an instance has at most, for the Assistant: columns that are equal modulo this number are added up."""


def libsvm(root: str, train: str, test: str = "", validation: str = "", regression: bool = False) -> Data:
    """Inputs float32 [D] from files in the folder `root`, which may be packed (.gz, .bz2, .xz).

    D is the largest index in any of them. Labels are numbered in the order of their values, or with `regression` are
    what is to be predicted.
    """
    named = {"train": train, "validation": validation, "test": test}
    paths = {key: found(root, f"data.args.{key}", name) for key, name in named.items() if name}
    read = dict(zip(paths, _read(list(paths.values())), strict=True))
    classes = Classes(() if regression else read["train"][1].tolist())

    def split(key: str) -> SparseSplit | None:
        if key not in read:
            return None
        matrix, labels = read[key]
        if not regression:
            labels = classes.numbers(labels.tolist(), paths[key].name)
        return SparseSplit(matrix.data, matrix.indices, matrix.indptr, matrix.shape[1], labels)

    learned = split("train")
    assert learned is not None
    return Data(learned, split("test"), split("validation"), class_names=classes.names)


def _read(paths: list[Path]) -> list[tuple[Any, Array]]:
    """(CSR matrix float32, labels) of each file; the matrices are equally wide."""
    # Imported here: scikit-learn takes most of a second, and other data sets do not need it.
    from sklearn.datasets import load_svmlight_file

    found = []
    for path in paths:
        with reading(path), opened(path) as file:
            found.append(load_svmlight_file(file, dtype=np.float32, zero_based=False))
    width = max(matrix.shape[1] for matrix, _ in found)
    for matrix, _ in found:
        matrix.resize(matrix.shape[0], width)
    return found


class SparseSplit:
    """Rows of a sparse matrix (CSR: float32 values, columns, where each row begins) with labels [N]."""

    def __init__(self, values: Float32s, columns: Array, begins: Array, width: int, labels: Array) -> None:
        self._values, self._columns, self._begins, self.width = values, columns, begins.astype(np.int64), width
        self.targets = checked(labels)

    def __len__(self) -> int:
        return len(self._begins) - 1

    def _entries(self, ids: Int64s) -> tuple[Int64s, Array, Float32s]:
        """Row (position in `ids`), column and value of every entry of the instances `ids`."""
        begins = self._begins[ids]
        counts = self._begins[ids + 1] - begins
        ends = np.cumsum(counts)
        at = np.arange(ends[-1] if len(ids) else 0) + np.repeat(begins - (ends - counts), counts)
        return np.repeat(np.arange(len(ids)), counts), self._columns[at], self._values[at]

    def _dense(self, ids: Int64s, out: Array) -> None:
        rows, columns, values = self._entries(ids)
        out[...] = 0
        out[rows, columns] = values

    def __getitem__(self, index: int) -> tuple[Float32s, int | float]:
        if not 0 <= index < len(self):
            raise IndexError(f"there is no instance {index}")
        row = np.empty((1, self.width), np.float32)
        self._dense(np.array([index]), row)
        return row[0], self.targets[index].item()

    def labels(self, ids: Int64s) -> Array:
        return self.targets[ids]

    def features(self, ids: Int64s) -> Float32s:
        rows, columns, values = self._entries(ids)
        limit = min(self.width, FEATURES)
        added = np.bincount(rows * limit + columns % limit, values, minlength=len(ids) * limit)
        return added.reshape(len(ids), limit).astype(np.float32)

    def fill(self, ids: Int64s, out: Mapping[str, Array]) -> None:
        self._dense(ids, out["inputs"])
        out["targets"][...] = self.targets[ids]

    def describe(self, index: int) -> str:
        _, columns, values = self._entries(np.array([index]))
        shown = zip(columns.tolist(), values.tolist(), strict=True)
        return " ".join(f"{column + 1}:{value:g}" for column, value in shown)
