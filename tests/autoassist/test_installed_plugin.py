"""A data set in a package of its own, installed into a folder: found by its entry point, listed, checked, trained."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "pretty-spirals"
version = "0.7"
description = "two spirals, to tell apart"

[project.entry-points."autoassist.datasets"]
spirals = "pretty_spirals.points:spirals"

[tool.hatch.build.targets.wheel]
packages = ["pretty_spirals"]
"""
MODULE = """
import numpy as np

class Spirals:
    class_names = ["left", "right"]

    def __len__(self):
        return 120

    def __getitem__(self, index):
        turn, side = index / 20, index % 2
        return np.array([turn * np.cos(turn + 3 * side), turn * np.sin(turn + 3 * side)]), side

def spirals():
    return Spirals()
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the package has been installed into, by pip; its sources are gone."""
    sources, target = tmp_path_factory.mktemp("sources"), tmp_path_factory.mktemp("installed")
    (sources / "pyproject.toml").write_text(PROJECT)
    (sources / "pretty_spirals").mkdir()
    (sources / "pretty_spirals" / "__init__.py").touch()
    module = sources / "pretty_spirals" / "points.py"
    module.write_text(MODULE)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    if subprocess.run([sys.executable, "-c", "import pip, hatchling.build"], check=False).returncode:
        pytest.skip("pip and hatchling are needed to build and install a package")
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--target", str(target), str(sources)], check=True)
    module.unlink()
    return target


@pytest.fixture
def path(installed: Path) -> str:
    return os.pathsep.join(filter(None, [str(installed), os.environ.get("PYTHONPATH")]))


def front_door(path: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "autoassist", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "100"},
    )


def test_it_is_listed_with_the_distribution_it_comes_from(path: str, tmp_path: Path) -> None:
    answer = front_door(path, tmp_path, "datasets")
    assert re.search(r"^spirals +two spirals, to tell apart +pretty-spirals 0\.7 *$", answer.stdout, re.MULTILINE)
    assert re.search(r"^digits .* built-in *$", answer.stdout, re.MULTILINE)


def test_it_is_checked_by_a_worker_process_too(path: str, tmp_path: Path) -> None:
    answer = front_door(path, tmp_path, "check-data", "data.name=spirals")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "pretty-spirals 0.7" in answer.stdout
    assert "no mistakes found" in answer.stdout


def test_it_is_trained_on_and_that_it_has_no_test_split_is_said_once(start_run, path: str) -> None:
    words = ("data.name=spirals", "boss.model=linear", "run.budget=2", "batcher.workers=1")
    run = start_run(*words, PYTHONPATH=path)
    assert run.wait() == 0, run.stdout + run.stderr
    assert run.stdout.count("data set spirals has no test split") == 1
    assert run.summary()["test_accuracy"] is None
    assert run.summary()["boss_instances"] == 240
