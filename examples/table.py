"""A CSV table and a small network of your own: `tumours` is the data set, `network` the model.

Run `autoassist launch examples/table.toml`.
"""

import csv
import tempfile
from pathlib import Path

from batcher.datasets.table import table
from batcher.plugin import Data
from proto.control import DataSpec


def tumours(root: str = "") -> Data:
    """Scikit-learn's breast cancer data: 30 measures of 569 tumours, benign or malignant; every fifth is for testing.

    Written as two tables first, into `root` or the temporary folder, and read from there as any table is.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(root or temporary)
        write(folder)
        return table(str(folder), train="train.csv", test="test.csv", label="diagnosis")


def write(folder: Path) -> None:
    from sklearn.datasets import load_breast_cancer

    found = load_breast_cancer()
    rows = [[*values, found.target_names[label]] for values, label in zip(found.data, found.target, strict=True)]
    tests = rows[::5]
    for name, chosen in (("train.csv", [row for k, row in enumerate(rows) if k % 5]), ("test.csv", tests)):
        with (folder / name).open("w", newline="") as file:
            csv.writer(file).writerows([[*found.feature_names, "diagnosis"], *chosen])


def network(spec: DataSpec, hidden: int = 32) -> object:
    """One hidden layer. The spec says what the data set is like."""
    from torch import nn  # here, since the data set is read by a process that needs no torch

    return nn.Sequential(nn.Linear(spec.input_shape[0], hidden), nn.ReLU(), nn.Linear(hidden, spec.classes))
