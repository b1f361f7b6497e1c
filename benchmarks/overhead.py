"""What the service costs: Boss steps per second with three processes against a plain loop over tensors in memory.

Both train the same model on the same data with the same batch size, optimizer, schedule and threads, keeping everything
(`policy.name = "uniform"`), each in a fresh process, in alternation.

    python -m benchmarks.overhead [--pairs N] [CONFIG.toml] [section.key=value ...]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch.nn.functional import cross_entropy

from autoassist.config import load
from batcher import plugin
from batcher.core import BatcherCore
from batcher.datasets.arrays import ArraySplit
from benchmarks.report import finish, median_interval
from boss.models import small_cnn

DEFAULTS = ["run.budget=40", "batcher.batch_size=64", "policy.name=uniform", "boss.eval_every=0"]


def plain_loop(words: Sequence[str]) -> float:
    """Steps per second of the loop a person would write, with normalised floats in memory before it starts."""
    settings = load(None, words)
    if settings.boss.threads:
        torch.set_num_threads(settings.boss.threads)
    torch.manual_seed(settings.run.seed)
    core = BatcherCore(settings.run, settings.batcher, settings.policy, plugin.load(settings.data), settings.data.name)
    split, spec, boss = core.train.split, core.spec, settings.boss
    assert isinstance(split, ArraySplit), "the plain loop needs a data set of arrays"
    shape = (-1, *[1] * (len(spec.input_shape) - 1))
    mean, std = torch.tensor(spec.mean).reshape(shape), torch.tensor(spec.std).reshape(shape)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    inputs = ((torch.from_numpy(split.inputs).float() / 255 - mean) / std).to(device)
    targets = torch.from_numpy(split.targets).to(device)
    model = small_cnn(spec).to(device)
    optimizer = torch.optim.SGD(
        model.parameters(), boss.lr, boss.momentum, weight_decay=boss.weight_decay, nesterov=boss.momentum > 0
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, boss.lr, total_steps=spec.train_batches + 1)
    steps, began = 0, time.perf_counter()
    while steps < spec.train_batches:
        for ids in torch.randperm(len(targets), device=device).split(settings.batcher.batch_size):
            if steps == spec.train_batches:
                break
            loss = cross_entropy(model(inputs[ids]), targets[ids])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            steps += 1
    if device.type == "cuda":
        torch.cuda.synchronize()
    return steps / (time.perf_counter() - began)


def service(words: Sequence[str], folder: Path) -> float:
    """Steps per second of the Boss in a run with three processes."""
    command = [sys.executable, "-m", "autoassist", "launch", *words, f"run.dir={folder}", "run.name=service"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    summary = json.loads((folder / "service" / "summary.json").read_text())
    return float(summary["optimizer_steps"] / summary["train_s"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7, help="alternating pairs to measure (7)")
    parser.add_argument("--plain-loop", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "words", nargs="*", metavar="section.key=value", help=f"after the defaults: {' '.join(DEFAULTS)}"
    )
    args = parser.parse_args()
    words = [*DEFAULTS, *args.words]
    if args.plain_loop:
        print(plain_loop(words))
        return
    settings = load(None, words)
    console, pairs = Console(), []
    table = Table(
        "pair", "service, steps/s", "plain loop, steps/s", "ratio", title=f"{settings.data.name}, {settings.boss.model}"
    )
    for pair in range(args.pairs):
        with tempfile.TemporaryDirectory() as folder:
            mine = service(words, Path(folder))
        command = [sys.executable, "-m", "benchmarks.overhead", "--plain-loop", *args.words]
        plain = float(subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ).stdout)
        pairs.append((mine, plain))
        table.add_row(str(pair), f"{mine:.1f}", f"{plain:.1f}", f"{mine / plain:.3f}")
    console.print(table)
    ratio, low, high = median_interval([mine / plain for mine, plain in pairs])
    console.print(f"median ratio {ratio:.3f}, 90 % interval {low:.3f} to {high:.3f}")
    finish(
        ratio_steps_vs_plain_loop=round(ratio, 4),
        ratio_interval=[round(low, 4), round(high, 4)],
        service_steps_per_s=[round(mine, 2) for mine, _ in pairs],
        plain_loop_steps_per_s=[round(plain, 2) for _, plain in pairs],
        data=settings.data.name,
        batch_size=settings.batcher.batch_size,
        seeds=[settings.run.seed],
    )


if __name__ == "__main__":
    main()
