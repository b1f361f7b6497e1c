"""The example of a stream."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_the_spirals_are_told_apart(start_run, workers):
    plugin = f"data.name={ROOT / 'examples/stream.py'}:data"
    run = start_run(str(ROOT / "examples/stream.toml"), plugin, "boss.threads=1", f"batcher.workers={workers}")
    assert run.wait(120) == 0, run.stderr
    summary = run.summary()
    assert summary["test_accuracy"] > 0.9
    assert summary["boss_instances"] == 2 * 4000
    assert summary["kept_fraction"] < 1
