"""`autoassist ablate`: eight combinations under one budget and one effective batch size."""

import json

import pytest

from autoassist.ablate import ARMS, ablate, settings_of
from proto.errors import ConfigError


def test_every_arm_has_its_techniques_and_the_same_effective_batch(toy_settings):
    assert len({arm.name for arm in ARMS}) == 8
    for arm in ARMS:
        one = settings_of(arm, toy_settings, "bf16", 4)
        assert (one.boss.amp == "bf16", one.boss.accumulate == 4, one.boss.pin_memory) == (
            arm.amp,
            arm.accumulate,
            arm.pin,
        )
        assert one.batcher.batch_size * one.boss.accumulate == toy_settings.batcher.batch_size


def test_it_writes_table_plot_and_json_and_makes_no_run_twice(toy_settings, console):
    settings = toy_settings.model_copy(update={"run": toy_settings.run.model_copy(update={"budget": 1.0})})
    for _ in range(2):
        assert ablate(settings, 1, "bf16", 4, console) == 0
    found = json.loads((folder_of(settings) / "ablate.json").read_text())
    assert [row["arm"] for row in found["arms"]] == [arm.name for arm in ARMS]
    assert found["arms"][0]["ratio_seconds_vs_plain"] == 1.0
    assert (folder_of(settings) / "ablate.png").stat().st_size > 5000
    assert "| AMP+GA+PM | " in (folder_of(settings) / "ablate.md").read_text()
    assert len((folder_of(settings) / "results.jsonl").read_text().splitlines()) == 8


def test_data_without_classes_is_compared_by_its_loss(toy_settings, console, tmp_path):
    (tmp_path / "lines.py").write_text(
        "import numpy as np\n"
        "from batcher.datasets.arrays import ArraySplit\n"
        "def lines():\n"
        "    x = np.random.default_rng(0).normal(size=(120, 4)).astype(np.float32)\n"
        "    return tuple(ArraySplit(part, part.sum(1, keepdims=True)) for part in (x[:80], x[80:]))\n"
    )
    run = toy_settings.run.model_copy(update={"budget": 0.5})
    data = toy_settings.data.model_copy(update={"name": "./lines.py:lines"})
    boss = toy_settings.boss.model_copy(update={"loss": "mse"})
    settings = toy_settings.model_copy(update={"run": run, "data": data, "boss": boss})
    assert ablate(settings, 1, "bf16", 4, console) == 0
    found = json.loads((folder_of(settings) / "ablate.json").read_text())
    assert all(row["loss"] > 0 and "accuracy" not in row for row in found["arms"])
    assert "| techniques | test loss | time, s |" in (folder_of(settings) / "ablate.md").read_text()


def folder_of(settings):
    from pathlib import Path

    return Path(settings.run.dir) / settings.run.name


def test_microbatches_must_divide_the_batch(toy_settings, console):
    with pytest.raises(ConfigError, match=r"must divide batcher\.batch_size = 32"):
        ablate(toy_settings, 1, "bf16", 5, console)
