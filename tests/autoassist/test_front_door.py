"""The command line: help, lists, configuration. It answers without torch."""

import re
import subprocess
import sys

import pytest

from autoassist.config import load
from autoassist.shadow import shadowed
from batcher.config import DATASETS, POLICIES
from boss.config import MODELS
from proto.messages import ROLES

HEAVY = ("torch", "torchvision", "sklearn", "scipy")


def front_door(*words, options=(), cwd=None):
    return subprocess.run(
        [sys.executable, *options, "-m", "autoassist", *words], capture_output=True, text=True, check=False, cwd=cwd
    )


def test_importing_it_imports_nothing_heavy():
    code = f"import sys, autoassist.cli; print([name for name in {HEAVY} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["datasets"],
        ["models"],
        ["policies"],
        ["config"],
        ["launch", "boss.model=cnn"],
        ["compare", "--policies", "autoasist"],
    ],
    ids=" ".join,
)
def test_no_answer_imports_anything_heavy(words):
    imports = front_door(*words, options=["-X", "importtime"]).stderr
    assert "autoassist.cli" in imports
    assert not re.search(rf"\| +({'|'.join(HEAVY)})\b", imports)


def test_help_names_every_command():
    answer = front_door("--help")
    assert (answer.returncode, answer.stderr) == (0, "")
    for command in ("launch", "compare", "ablate", "config", "check-data", "datasets", "models", "policies", *ROLES):
        assert re.search(rf"^  {command} ", answer.stdout, re.MULTILINE), command


def test_launch_help_shows_how_to_configure():
    answer = front_door("launch", "--help")
    assert answer.returncode == 0
    assert "[CONFIG.toml] [section.key=value]..." in answer.stdout


@pytest.mark.parametrize(("command", "builtins"), [("datasets", DATASETS), ("models", MODELS), ("policies", POLICIES)])
def test_lists_every_builtin_name_and_how_to_bring_your_own(command, builtins):
    answer = front_door(command)
    assert answer.returncode == 0
    assert [name for name in builtins if not re.search(rf"^{name}\s", answer.stdout, re.MULTILINE)] == []
    assert "package.module:callable or ./file.py:callable" in answer.stdout


def test_config_is_a_file_to_start_from(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(front_door("config").stdout)
    assert load(path, []) == load(None, [])
    changed = front_door("config", "own.toml", "run.budget=3", cwd=tmp_path)
    path.write_text(changed.stdout)
    assert load(path, []) == load(None, ["run.budget=3"])


def test_config_refuses_what_launch_would_refuse(tmp_path):
    answer = front_door("config", "policy.gamma=2", cwd=tmp_path)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("autoassist: policy.gamma = 2: ")


@pytest.mark.parametrize("role", ROLES)
def test_a_worker_by_hand_needs_a_run_directory(role, tmp_path):
    answer = front_door(role, "--run-dir", "nowhere", cwd=tmp_path)
    assert answer.returncode == 2
    assert answer.stderr.startswith(f"{role}: --run-dir = 'nowhere': no run directory")
    assert answer.stderr.count("\n") == 1


def test_an_unknown_command_is_refused_without_a_traceback():
    answer = front_door("lunch")
    assert answer.returncode == 2
    assert "lunch" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_our_own_packages_are_not_shadowed_here():
    assert shadowed() is None


def test_a_package_that_shadows_ours_is_named(tmp_path, monkeypatch):
    (tmp_path / "boss").mkdir()
    (tmp_path / "boss" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "boss")
    assert f"package boss = {tmp_path / 'boss'}" in shadowed()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--policies", "asist"], "--policies = 'asist': unknown; did you mean 'assist'? (your own: "),
        (["--budgets", "2,x"], "--budgets = '2,x': must be positive"),
        (["--tune", "batcher.batch_size=16,32"], "--tune = 'batcher.batch_size': must be the same in all arms"),
        (["--against", "fastai"], "--against = 'fastai': allowed: dataloader"),
        (["--against", "dataloader", "--serial"], "--against = 'dataloader': serial runs have no wall-clock"),
    ],
)
def test_compare_refuses_what_cannot_be_in_one_line(words, problem, tmp_path):
    answer = front_door("compare", *words, cwd=tmp_path)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith(f"autoassist: {problem}")
    assert answer.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
