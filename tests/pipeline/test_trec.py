"""The example with texts, whose instances differ in length."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TREC = ROOT.parent / "shared/data/text-trec"


@pytest.mark.slow
@pytest.mark.skipif(not TREC.is_dir(), reason="the TREC questions are not in ../shared/data/text-trec")
def test_trec_questions_are_told_apart(start_run):
    run = start_run(str(ROOT / "examples/trec.toml"), f"data.root={TREC}", "boss.threads=1")
    assert run.wait() == 0, run.stderr
    summary = run.summary()
    assert summary["test_accuracy"] >= 0.80
    assert summary["boss_instances"] == 6 * 5452
    assert summary["frames_refused"] == 0
