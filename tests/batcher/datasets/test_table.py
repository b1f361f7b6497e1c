from pathlib import Path
from typing import Any

import made_data
import numpy as np
import pytest

from batcher.config import DataConfig
from batcher.datasets.arrays import ArraySplit
from batcher.plugin import Data, load
from proto.errors import ConfigError

ROWS = "age, work, height,sold\n30,office,1.5,no\n40,field,2.5,yes\n\n50,'x, y',3.5,no\n"


def of(folder: Path, text: str = ROWS, test: str = "", **args: Any) -> Data:
    (folder / "train.csv").write_text(text.replace("'", '"'))
    if test:
        (folder / "test.csv").write_text(test)
        args["test"] = "test.csv"
    return load(DataConfig(name="csv", root=str(folder), args={"train": "train.csv", "label": "sold"} | args))


def test_numbers_are_standardised_and_other_columns_are_one_input_for_each_value(tmp_path: Path) -> None:
    data = of(tmp_path, test="sold,height,work,age\nyes,2.5,office,40\nno,2.5,elsewhere,60\n")
    assert isinstance(data.train, ArraySplit)
    deviation = 1.5**0.5
    expected = [[-deviation, 0, 1, 0, -deviation], [0, 1, 0, 0, 0], [deviation, 0, 0, 1, deviation]]
    np.testing.assert_allclose(data.train.inputs, expected, atol=1e-6)
    assert data.train.targets.tolist() == [0, 1, 0]
    assert list(data.class_names) == ["no", "yes"]
    assert isinstance(data.test, ArraySplit)
    np.testing.assert_allclose(data.test.inputs, [[0, 0, 1, 0, 0], [2 * deviation, 0, 0, 0, 0]], atol=1e-6)
    assert data.test.targets.tolist() == [1, 0]


def test_columns_are_left_out_or_taken_as_values_as_asked(tmp_path: Path) -> None:
    data = of(tmp_path, drop=["work"], categorical=["age"], standardise=False)
    assert isinstance(data.train, ArraySplit)
    assert data.train.inputs.tolist() == [[1, 0, 0, 1.5], [0, 1, 0, 2.5], [0, 0, 1, 3.5]]


def test_a_number_may_be_what_is_predicted(tmp_path: Path) -> None:
    data = of(tmp_path, label="height", regression=True)
    assert isinstance(data.train, ArraySplit)
    assert data.train.targets.tolist() == [1.5, 2.5, 3.5]
    assert list(data.class_names) == []


def test_another_separator_and_a_packed_file(tmp_path: Path) -> None:
    import gzip

    (tmp_path / "train.csv.gz").write_bytes(gzip.compress("x;sold\n1;0\n2;1\n".encode("utf-8-sig")))
    args = {"train": "train.csv", "label": "sold", "separator": ";", "standardise": False}
    data = load(DataConfig(name="csv", root=str(tmp_path), args=args))
    assert isinstance(data.train, ArraySplit)
    assert data.train.inputs.tolist() == [[1], [2]]


@pytest.mark.parametrize(
    ("text", "args", "problem"),
    [
        (ROWS, {"label": "sale"}, r"data\.args\.label = 'sale': .* columns there: age, work, height, sold"),
        (ROWS, {"drop": ["hight"]}, r"data\.args\.drop = 'hight': train\.csv has no column 'hight'"),
        (ROWS, {"categorical": ["job"]}, r"data\.args\.categorical = 'job'"),
        (ROWS, {"drop": ["age", "work", "height"]}, r"leaves no column"),
        ("x,sold\n1,a\n2\n", {}, r"train\.csv, line 3: 1 fields, the header has 2; is it cut off"),
        ("x,sold\n1,a\n2x,b\n", {}, r"instance 1 \(from 0\), column 'x': '2x' is no number; .*data\.args\.drop"),
        ("x,sold\n1,a\nnan,b\n", {}, r"column 'x': 'nan' is no number"),
        ("x,sold\n1,a\n,b\n", {}, r"column 'x': '' is no number"),
        ("x,sold\n1,2.5\n1,\n", {"regression": True}, r"column 'sold': '' is no number"),
        ("x,sold,x\n1,a,2\n", {}, r"train\.csv has two columns 'x'"),
        ("x,sold\n", {}, r"train\.csv has no line after its header"),
        ("", {}, r"train\.csv has no line after its header"),
        ("x,sold\n" + "".join(f"a{k},b\n" for k in range(1001)), {}, r"column 'x' .* has 1001 different values"),
    ],
)
def test_what_cannot_be_is_one_line_that_says_what_to_do(
    text: str, args: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=problem) as raised:
        of(tmp_path, text, **args)
    assert "\n" not in str(raised.value)


def test_a_test_table_must_have_the_columns_and_labels_of_the_training_table(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.args\.test = 'height': test\.csv has no column 'height'"):
        of(tmp_path, test="age,work,sold\n1,office,no\n")
    with pytest.raises(ConfigError, match=r"test\.csv: label 'maybe' is none of the training split's: no, yes"):
        of(tmp_path, test="age,work,height,sold\n1,office,2,maybe\n")


def test_no_torch_and_no_pandas_is_needed(tmp_path: Path) -> None:
    import subprocess
    import sys

    made_data.csv_files(tmp_path)
    config = made_data.ARGS["csv"]
    code = f"""
import sys
from batcher.config import DataConfig
from batcher.plugin import load
load(DataConfig(name="csv", root={str(tmp_path)!r}, args={config!r}))
heavy = {{"torch", "torchvision", "sklearn", "scipy", "pandas"}} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True)
