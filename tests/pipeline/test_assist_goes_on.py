"""A run under `assist` that is stopped while it selects, and goes on, ends with the same bits."""

import io
import os
import signal

import pytest
from rich.console import Console

from autoassist.config import load
from autoassist.launch import launch, resume
from batcher.core import BatcherCore

WORDS = ("run.serial=true", "run.dir=runs", "boss.threads=1", "boss.eval_every=0", "run.budget=5", "policy.name=assist")


@pytest.mark.slow
def test_it_ends_with_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs, console, asked = tmp_path / "runs", Console(file=io.StringIO()), []
    assert launch(load(None, [*WORDS, "run.name=whole"]), console) == 0
    whole = BatcherCore.next

    def stopped_in_batch_170(self, *args):
        asked.append(1)
        if len(asked) == 170:
            assert self.selector.open
            os.kill(os.getpid(), signal.SIGTERM)
        return whole(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(BatcherCore, "next", stopped_in_batch_170)
        assert launch(load(None, [*WORDS, "run.name=cut"]), console) == 143
    assert resume(runs / "cut", console) == 0
    assert (runs / "cut/model.safetensors").read_bytes() == (runs / "whole/model.safetensors").read_bytes()
