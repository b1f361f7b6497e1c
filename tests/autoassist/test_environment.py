"""What torch's threads make of the environment that a Boss gets."""

import subprocess
import sys

import pytest

from autoassist.environment import environment


@pytest.mark.parametrize(("theirs", "policy"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_threads_of_the_boss_sleep_while_they_wait_unless_the_user_wants_them_to_spin(monkeypatch, theirs, policy):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    if theirs:
        monkeypatch.setenv("OMP_WAIT_POLICY", theirs)
    monkeypatch.setenv("OMP_DISPLAY_ENV", "TRUE")
    command = [sys.executable, "-c", "import torch"]
    shown = subprocess.run(command, env=environment("boss"), capture_output=True, text=True, check=True).stderr
    assert f"OMP_WAIT_POLICY = '{policy}'" in shown
