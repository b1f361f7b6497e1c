from pathlib import Path

import pytest
from pydantic import Field

from proto.config import RunConfig, RunInfo, Section, read_toml
from proto.errors import ConfigError


class Toy(Section):
    """A section."""

    lr: float = Field(default=1.0, gt=0)
    """Step size."""
    name: str = ""
    """Name."""


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"lrr": 1.0}, "toy.lrr = 1.0: unknown key; did you mean 'toy.lr'?"),
        ({"lr": 0}, "toy.lr = 0: input should be greater than 0"),
        ({"lr": "1"}, "toy.lr = '1': wrong type; input should be a valid number"),
        ({"name": 3}, "toy.name = 3: wrong type; input should be a valid string"),
    ],
)
def test_a_bad_value_is_explained_in_one_line(values: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Toy.read("toy", values)
    assert str(caught.value) == text


def test_docstrings_are_the_help() -> None:
    assert Toy.model_fields["lr"].description == "Step size."


@pytest.mark.parametrize(
    "values",
    [
        {"budget": 0}, {"budget": float("inf")}, {"budget": float("nan")}, {"seed": -1}, {"seed": 2**63},
        {"lag": 0}, {"serial": 1}, {"by_hand": ["nobody"]},
    ],
)  # fmt: skip
def test_run_values_that_cannot_be_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=f"run.{next(iter(values))}"):
        RunConfig.read("run", values)


def test_toml_comes_with_the_digest_of_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("[run]\nseed = 3\n")
    tables, digest = read_toml(path)
    assert tables == {"run": {"seed": 3}}
    path.write_text("[run]\nseed = 3 \n")
    again, other = read_toml(path)
    assert again == tables
    assert other != digest


@pytest.mark.parametrize("content", [None, b"[run", b"\xff\xfe"])
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "a.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"configuration file = .*a\.toml"):
        read_toml(path)


def test_run_info_comes_back(tmp_path: Path) -> None:
    info = RunInfo(run_id="r", socket_dir=tmp_path, supervisor_pid=7)
    info.save(tmp_path)
    assert RunInfo.load(tmp_path) == info


@pytest.mark.parametrize("content", [None, "{", "{}", "[]"])
def test_a_folder_that_is_no_run_directory_is_named(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(ConfigError, match="no run directory"):
        RunInfo.load(tmp_path)
