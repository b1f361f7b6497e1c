"""How soon a killed worker is back: from the kill to the first message of the new one, against its first start.

python -m benchmarks.restarts --runs 20 [section.key=value ...]

In each run Batcher, Assistant and Boss (with run.restart_boss) are killed once, at a random moment, one after another.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.report import finish
from benchmarks.soak import how_soon, workers
from proto.messages import ROLES

WORDS = ("run.name=restarts", "run.budget=1000000", "boss.model=linear", "boss.threads=1", "run.restart_boss=true",
         "boss.eval_every=100", "boss.checkpoint_every=100")  # fmt: skip
LONGEST_S = 120.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("words", nargs="*", help="section.key=value")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    restarts = [restart for _ in range(options.runs) for restart in killed_once_each(chance, options.words)]
    figures = {key: value for role in ROLES for key, value in how_soon(restarts, role).items()}
    for key, value in figures.items():
        print(f"{key:>40}  {value}")
    finish(**figures, seeds=[options.seed])


def killed_once_each(chance: random.Random, words: list[str]) -> list[dict[str, Any]]:
    """The restarts of one run, as its summary has them."""
    folder = Path(tempfile.mkdtemp(prefix="restarts-"))
    command = [sys.executable, "-m", "autoassist", "launch", *WORDS, f"run.dir={folder}", *words]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    log = folder / "restarts" / "metrics.jsonl"
    try:
        for role in (*chance.sample(("batcher", "assistant"), 2), "boss"):
            pids = until_training(process, log, {})
            time.sleep(chance.uniform(0.0, 2.0))
            os.kill(pids[role], signal.SIGKILL)
            until_training(process, log, {role: pids[role]})
        process.send_signal(signal.SIGTERM)
        process.wait(LONGEST_S)
        found: list[dict[str, Any]] = json.loads((folder / "restarts" / "summary.json").read_text())["restarts"]
        return found
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def until_training(process: "subprocess.Popen[bytes]", log: Path, dead: dict[str, int]) -> dict[str, int]:
    """Waits until all workers, none of them `dead`, have told of themselves; role -> pid."""
    deadline = time.monotonic() + LONGEST_S
    while time.monotonic() < deadline and process.poll() is None:
        pids = workers(log)
        if len(pids) == len(ROLES) and not pids.items() & dead.items():
            return pids
        time.sleep(0.1)
    raise RuntimeError(f"no run with all workers; exit code {process.poll()}")


if __name__ == "__main__":
    main()
