"""CSV tables: a header line, then one instance a line."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from batcher.datasets.arrays import ArraySplit
from batcher.datasets.files import Classes, found, opened, reading
from batcher.plugin import Data
from proto.errors import ConfigError
from proto.types import Array, Float32s

CATEGORIES = 1000
"""Different values a categorical column may have."""

Column = list[str]


def table(
    root: str,
    train: str,
    label: str,
    test: str = "",
    validation: str = "",
    categorical: Sequence[str] = (),
    drop: Sequence[str] = (),
    separator: str = ",",
    standardise: bool = True,
    regression: bool = False,
) -> Data:
    """Inputs float32 [D] from tables in the folder `root`, which may be packed (.gz, .bz2, .xz).

    `label` is the column with the class (any text), or with `regression` with the number to be predicted. Of the
    others, without those in `drop`, the numeric ones are shifted and scaled to mean 0 and deviation 1 in the training
    table (`standardise`). A column is categorical if its first value is no number, or if it is named in `categorical`:
    it becomes one input for each value that it has in the training table, 1 or 0.
    """
    named = {"train": train, "validation": validation, "test": test}
    paths = {key: found(root, f"data.args.{key}", name) for key, name in named.items() if name}
    tables = {key: _read(path, separator) for key, path in paths.items()}
    for key, value in (("label", [label]), ("drop", drop), ("categorical", categorical)):
        for column in value:
            _needed(tables["train"], column, f"data.args.{key}", paths["train"])
    inputs = [name for name in tables["train"] if name != label and name not in drop]
    if not inputs:
        raise ConfigError("data.args.drop", list(drop), f"leaves no column of {paths['train'].name} but the label")
    for key in ("validation", "test"):
        for name in (label, *inputs) if key in tables else ():
            _needed(tables[key], name, f"data.args.{key}", paths[key])
    encoders = [
        _Encoder(name, tables["train"][name], paths["train"].name, name in categorical, standardise) for name in inputs
    ]
    classes = Classes(() if regression else tables["train"][label])

    def split(key: str) -> ArraySplit | None:
        if key not in tables:
            return None
        columns, where = tables[key], paths[key].name
        rows = np.concatenate([encoder.encode(columns[encoder.name], where) for encoder in encoders], axis=1)
        return ArraySplit(
            rows,
            _numbers(columns[label], where, label) if regression else classes.numbers(columns[label], where),
        )

    learned = split("train")
    assert learned is not None
    return Data(learned, split("test"), split("validation"), class_names=classes.names)


def _read(path: Path, separator: str) -> dict[str, Column]:
    """The columns of a table, by name. Raises ValueError when it has no lines, or one of another length."""
    with reading(path), opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file, delimiter=separator, skipinitialspace=True)
        header = [name.strip() for name in next(lines, [])]
        if twice := {name for name in header if header.count(name) > 1}:
            raise ValueError(f"{path.name} has two columns {min(twice)!r}; give each a name of its own")
        rows = []
        for row in lines:
            if len(row) != len(header) and row:
                problem = (
                    f"{len(row)} fields, the header has {len(header)}; is it cut off, or data.args.separator wrong?"
                )
                raise ValueError(f"{path.name}, line {lines.line_num}: {problem}")
            if row:
                rows.append(row)
    if not rows:
        raise ValueError(f"{path.name} has no line after its header")
    return {
        name: [value.strip() for value in column] for name, column in zip(header, zip(*rows, strict=True), strict=True)
    }


def _needed(columns: dict[str, Column], name: str, key: str, path: Path) -> None:
    if name not in columns:
        there = ", ".join(columns)
        raise ConfigError(key, name, f"{path.name} has no column {name!r}; columns there: {there}")


def _numbers(column: Column, where: str, name: str) -> Float32s:
    """`column` as float32 [N]. Raises ValueError for the first value that is no finite number."""
    try:
        numbers = np.array(column, dtype=np.float32)
    except ValueError:
        numbers = np.array([_number(value) for value in column], np.float32)
    if not (finite := np.isfinite(numbers)).all():
        row = int(finite.argmin())
        mend = "mend it, or leave the column out with data.args.drop, or name it in data.args.categorical"
        raise ValueError(f"{where}, instance {row} (from 0), column {name!r}: {column[row]!r} is no number; {mend}")
    return numbers


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return float("nan")


class _Encoder:
    """How a column becomes inputs; its numbers and its values are those of the training table."""

    def __init__(self, name: str, column: Column, where: str, categorical: bool, standardise: bool) -> None:
        self.name = name
        self._values: dict[str, int] | None = None
        self._mean, self._deviation = np.float32(0), np.float32(1)
        if categorical or np.isnan(_number(column[0])):
            self._values = {value: number for number, value in enumerate(sorted(set(column)))}
            if len(self._values) > CATEGORIES:
                problem = f"column {name!r} of {where} has {len(self._values)} different values; leave it out"
                raise ConfigError("data.args.drop", name, problem)
        elif standardise:
            numbers = _numbers(column, where, name).astype(np.float64)
            self._mean, self._deviation = np.float32(numbers.mean()), np.float32(numbers.std() or 1)

    def encode(self, column: Column, where: str) -> Array:
        """`column` as float32 [N, d]. A value that the training table does not have is all zeros."""
        if self._values is None:
            return ((_numbers(column, where, self.name) - self._mean) / self._deviation)[:, None]
        numbers = np.array([self._values.get(value, -1) for value in column])
        hot: Array = numbers[:, None] == np.arange(len(self._values))
        return hot.astype(np.float32)
