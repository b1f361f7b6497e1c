"""A run that goes on until something happens to it."""

import pytest


@pytest.fixture
def start_endless(start_run):
    """Starts a run with more budget than any test waits for, and a model that costs next to nothing."""

    def start(*words, **how):
        return start_run("run.budget=100000", "boss.model=linear", "boss.threads=1", *words, **how)

    return start
