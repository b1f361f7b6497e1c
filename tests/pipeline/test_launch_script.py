"""scripts/launch.sh works from any folder."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "launch.sh"


def _must_install():
    """Whether the script would have to install the project first; it notes for which pyproject.toml it did."""
    stamp = ROOT / ".venv" / "installed"
    source = (ROOT / "pyproject.toml").read_bytes()
    wanted = subprocess.run(["cksum"], input=source, capture_output=True, check=True).stdout.decode().strip()
    return not stamp.exists() or stamp.read_text().strip() != f"{wanted} {ROOT}"


needs_environment = pytest.mark.slow if _must_install() else pytest.mark.filterwarnings()


@needs_environment
def test_trains_from_another_folder(start_run, tmp_path):
    (tmp_path / "one epoch.toml").write_text("[run]\nbudget = 1\n")
    run = start_run("one epoch.toml", "boss.threads=1", "run.dir=my runs", command=(str(SCRIPT),))
    assert run.wait(900) == 0, run.stderr
    assert run.run_dir == tmp_path / "my runs" / "r"
    assert run.summary()["boss_instances"] == 1437


@needs_environment
def test_passes_on_what_a_person_can_mend(start_run):
    run = start_run("boss.model=cnn", command=(str(SCRIPT),))
    assert run.wait(900) == 2
    assert "boss.model = 'cnn'" in run.stderr
    assert "Traceback" not in run.stderr
