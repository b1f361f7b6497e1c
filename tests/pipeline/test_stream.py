"""The example of a stream."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_the_spirals_are_told_apart(start_run, workers):
    plugin = f"data.name={ROOT / 'examples/stream.py'}:data"
    # Long enough that the gate opens on a machine that is busy with something else, too.
    words = (plugin, "boss.threads=1", f"batcher.workers={workers}", "run.budget=8")
    run = start_run(str(ROOT / "examples/stream.toml"), *words)
    assert run.wait(240) == 0, run.stderr
    summary = run.summary()
    assert summary["test_accuracy"] > 0.9
    assert summary["boss_instances"] == 8 * 4000
    assert summary["kept_fraction"] < 1
