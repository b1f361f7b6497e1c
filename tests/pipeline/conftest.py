"""The run that most tests of this folder look at: everything left at its default."""

from pathlib import Path

import pytest

from autoassist.config import load

ONE_THREAD = "boss.threads=1"
"""So that on a machine busy with other things torch's threads do not wait for each other."""


@pytest.fixture(scope="session")
def default_run(start_shared_run):
    """A finished `autoassist launch` with three processes and, but for that, the default configuration."""
    run = start_shared_run("run.name=default", ONE_THREAD)
    run.all_started()
    run.environments = {role: Path(f"/proc/{pid}/environ").read_text() for role, pid in run.seen.items()}
    run.exit_code = run.wait(120)
    return run


@pytest.fixture(scope="session")
def defaults():
    return load(None, [ONE_THREAD])
