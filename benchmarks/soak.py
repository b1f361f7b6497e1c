"""A long run in which a worker is killed every minute: what it trained, what was lost, and whether memory grows.

python -m benchmarks.soak --minutes 30 [--every 60] [section.key=value ...]
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

from autoassist.metrics import newest_beats
from benchmarks.report import finish, median_interval
from proto.messages import ROLES, Role

SETTLED_MINUTE = 3.0
WORDS = ("run.name=soak", "run.budget=1000000", "run.max_restarts=1000000", "boss.model=mlp", "boss.threads=1",
         "boss.eval_every=100", "boss.checkpoint_every=100")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--every", type=float, default=60.0, help="seconds from kill to kill")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("words", nargs="*", help="section.key=value")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    try:
        figures = soak(folder, options.minutes * 60, options.every, random.Random(options.seed), options.words)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for key, value in figures.items():
        print(f"{key:>28}  {value}")
    finish(**figures, seeds=[options.seed])


def soak(folder: Path, seconds: float, every: float, chance: random.Random, words: list[str]) -> dict[str, object]:
    """Runs for `seconds`; the figures."""
    command = [sys.executable, "-m", "autoassist", "launch", *WORDS, f"run.dir={folder}", *words]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    log = folder / "soak" / "metrics.jsonl"
    began, killed, settled, newest = time.monotonic(), 0, {}, {}
    try:
        elapsed = 0.0
        # To the end, and until the worker that was killed last is back: each has a size then.
        while (elapsed < seconds or len(newest) < 4) and process.poll() is None:
            time.sleep(1.0)
            elapsed = time.monotonic() - began
            pids = {role: pid for role, pid in workers(log).items() if Path(f"/proc/{pid}").exists()}
            newest = {role: megabytes(pid) for role, pid in {**pids, "supervisor": process.pid}.items()}
            if elapsed >= min(SETTLED_MINUTE * 60, seconds / 2) and not settled and len(newest) == 4:
                settled = newest
            # Not in the last half minute, so that what is measured at the end has settled.
            mortal = [role for role in ("batcher", "assistant") if role in pids]
            if elapsed >= (killed + 1) * every and elapsed < seconds - 30 and mortal:
                killed += 1
                os.kill(pids[chance.choice(mortal)], signal.SIGKILL)
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
    summary = json.loads((folder / "soak" / "summary.json").read_text())
    growth = {f"growth_{role}": round(newest[role] / settled[role] - 1, 4) for role in settled if role in newest}
    return {
        "exit_code": code,
        "minutes": round((time.monotonic() - began) / 60, 1),
        "kills": killed,
        "restarts": len(summary["restarts"]),
        "boss_instances": summary["boss_instances"],
        "reports_sent": summary["reports_sent"],
        "reports_folded": summary["reports_folded"],
        "reports_dropped": summary["reports_dropped"],
        "reports_lost": summary["reports_unread"],
        "frames_refused": summary["frames_refused"],
        **{f"end_mb_{role}": round(mb, 1) for role, mb in newest.items()},
        **growth,
        **{key: value for role in ROLES for key, value in how_soon(summary["restarts"], role).items()},
    }


def how_soon(restarts: list[dict[str, Any]], role: Role) -> dict[str, Any]:
    """How long `role` was away, from when it was lost to the first message of the new one, against its first start."""
    ratios = [r["away_s"] / r["cold_start_s"] for r in restarts if r["role"] == role and r["away_s"] is not None]
    if not ratios:
        return {}
    ratio, low, high = (round(value, 3) for value in median_interval(ratios))
    return {
        f"restarts_{role}": len(ratios),
        f"ratio_restart_vs_cold_start_{role}": ratio,
        f"interval_{role}": [low, high],
    }


def workers(log: Path) -> dict[str, int]:
    """Role -> pid, from the newest heartbeats."""
    return {role: int(values["pid"]) for role, values in newest_beats(log).items() if role in ROLES}


def megabytes(pid: int) -> float:
    """Memory that process `pid` has for itself; 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


if __name__ == "__main__":
    main()
