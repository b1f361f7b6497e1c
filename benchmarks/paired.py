"""Serial runs of one configuration under several policies, on the same seeds."""

import csv
import json
import tempfile
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from autoassist.config import load
from autoassist.launch import launch

COMMON = ("run.serial=true", "boss.eval_every=0", "boss.checkpoint_every=0", "run.name=run")
PROTOCOL = (
    "batcher.batch_size=128", "boss.model=small_cnn", "boss.args={batch_norm=true}", "boss.schedule=one_cycle",
    "boss.momentum=0.9", "boss.nesterov=true", "boss.weight_decay=5e-4",
)  # fmt: skip
"""Small CNN with batch norm, one-cycle, Nesterov's momentum."""


def run(seed: int, *words: str) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """The summary of a run with `words` as settings, and its suspects."""
    with tempfile.TemporaryDirectory() as folder:
        settings = load(None, [*COMMON, *PROTOCOL, *words, f"run.seed={seed}", f"run.dir={folder}"])
        code = launch(settings, Console(file=StringIO()))
        if code:
            raise RuntimeError(f"a run ended with exit code {code}")
        made = Path(folder) / "run"
        with (made / "suspects.csv").open(newline="") as file:
            return json.loads((made / "summary.json").read_text()), list(csv.DictReader(file))
