"""A plain PyTorch loop over the same data: what people would use instead, in its fastest form.

    python -m autoassist.compare.plain --run-dir DIR --form FORM

Model, initial weights, optimizer, schedule, batch size, number of instances and evaluation are those of a run of the
service with the same settings; so is the number of threads in all.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from autoassist import rundir
from autoassist import summary as summaries
from autoassist.compare.arms import BASELINE, PLAIN, Arm
from autoassist.compare.plan import Plan
from autoassist.config import Settings, change, load
from autoassist.environment import environment
from autoassist.signals import caught
from autoassist.sweep import Run, Sweep
from batcher.config import PolicyConfig
from proto.errors import ConfigError
from proto.parent import end_with_parent, kept_from_children, outlive_sigterm

FORMS = ("tensors in memory", "DataLoader without workers", "DataLoader with 1 worker", "DataLoader with 2 workers")
ROUNDS = 2
"""How often each form is tried before the fastest is chosen."""
WAIT_S = 0.05
TRIED = 200
"""Batches of a trial: many more than the workers of a DataLoader have ready when the first one is taken."""


@dataclass(frozen=True)
class Launch:
    """Launches the loop in a fresh process; as `autoassist.launch.launch`."""

    form: str

    def __call__(self, settings: Settings, console: Console) -> int:
        settings, run_dir = rundir.make(settings)
        log = run_dir / "plain.log"
        words = ["--run-dir", str(run_dir), "--form", self.form, "--parent", str(os.getpid())]
        with caught() as signals, log.open("w") as file:
            with kept_from_children():
                process = subprocess.Popen(
                    [sys.executable, "-m", "autoassist.compare.plain", *words],
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    env=environment("boss"),
                )
            while process.poll() is None:
                if signals:
                    process.kill()
                time.sleep(WAIT_S)
        code = 128 + signals[0] if signals else process.returncode
        said = log.read_text().strip().splitlines() or ["it ended"]
        if code == 2:
            raise ConfigError.told(said[-1])
        if code:
            reason = f"stopped by {signal.Signals(signals[0]).name}" if signals else f"{PLAIN}: {said[-1]}"
            code = code if signals else 1
            summaries.write({"exit_code": code, "exit_reason": reason}, run_dir / "summary.json")
        return code


def with_plain(plan: Plan, sweep: Sweep) -> Plan:
    """`plan` with a plain loop at each of the baseline's budgets, in the form that is fastest here.

    Raises ConfigError for settings that the loop does not know.
    """
    size = _check(plan.settings)
    budgets = [arm.budget for arm in plan.arms_called(BASELINE)]
    length = TRIED * plan.settings.batcher.batch_size / size
    settings = plan.settings.model_copy(update={"policy": PolicyConfig(name=BASELINE)})
    settings = change(settings, [f"run.budget={length!r}", 'data.test="never"'])
    seconds: dict[str, float] = {}
    for k in range(ROUNDS):
        for form in FORMS:
            found = sweep.make(Run(f"try-{form.replace(' ', '-')}-{k}", settings, Launch(form), form))["train_s"]
            if found is not None:
                seconds[form] = min(found, seconds.get(form, found))
    best = min(seconds, key=lambda form: seconds[form])
    arms = [*plan.arms, *(Arm(PLAIN, BASELINE, budget) for budget in budgets)]
    return replace(plan, arms=arms, launches={**plan.launches, PLAIN: (best, Launch(best))})


def _check(settings: Settings) -> int:
    """The number of training instances. Raises ConfigError for what the loop does not know."""
    from batcher import plugin
    from batcher.look import look

    boss, name = settings.boss, settings.data.name
    for key, plain in (("accumulate", 1), ("microbatch", 0), ("mixup", 0.0), ("cutmix", 0.0), ("ema", 0.0)):
        if getattr(boss, key) != plain:
            raise ConfigError(f"boss.{key}", getattr(boss, key), f"--against dataloader can have {plain} only")
    split = plugin.load(settings.data).train
    if plugin.is_stream(split) or hasattr(split, "collate") or look(split, name).ragged:
        problem = (
            "--against dataloader can have no stream, no collate, and no inputs that differ in length; leave it out"
        )
        raise ConfigError("data.name", name, problem)
    return len(split)


def threads(settings: Settings, workers: int) -> int:
    """Threads for torch beside `workers`, so that there are as many in all as in a run of the service."""
    cores = len(os.sched_getaffinity(0))
    service = settings.boss.threads + settings.assistant.threads + 1 + settings.batcher.workers
    return max(1, (min(cores, service) if settings.boss.threads else cores) - workers)


def train(settings: Settings, form: str) -> dict[str, Any]:
    """Trains to the end of the budget; the summary. Its time is None where the data set has no such form."""
    import resource

    import torch
    from torch.nn.functional import cross_entropy
    from torch.nn.utils import clip_grad_norm_

    from autoassist.compare.feed import Batches, Prepare, in_memory, loaded
    from batcher.core import BatcherCore
    from batcher.plugin import load as load_data
    from boss.allocator import keep_freed_memory
    from boss.augment import make_augmenter
    from boss.precision import full
    from boss.trainer import Trainer, device_name

    workers = max(0, FORMS.index(form) - 1)
    torch.set_num_threads(threads(settings, workers))
    keep_freed_memory()  # as the Boss does
    boss = settings.boss
    core = BatcherCore(settings.run, settings.batcher, settings.policy, load_data(settings.data), settings.data.name)
    # Builds model, optimizer and schedule as the service does, so that they begin alike. Its loop is not used.
    trainer = Trainer(settings.run, boss, core.spec)
    stepper, model, device = trainer.stepper, trainer.model, trainer.device
    optimizer, precision = stepper.optimizer, stepper.precision
    if hasattr(optimizer, "found_inf"):
        del optimizer.found_inf  # the service's way of leaving a step out
    prepare = Prepare(trainer.prepare.normalise, make_augmenter(boss, core.spec, settings.run.seed))
    batches: Batches | None
    if form == FORMS[0]:
        batches = in_memory(core, prepare, settings.run.seed, device)
    else:
        batches = loaded(core, prepare, settings.run.seed, device, workers)
    if batches is None:
        return {"exit_code": 0, "train_s": None}
    counts = torch.zeros(core.spec.classes, dtype=torch.int64, device=device)
    began, steps = None, 0
    model.train()
    for inputs, targets in batches:
        if began is None:
            began = time.perf_counter()
        with precision.autocast():
            logits = full(model(precision.inputs(inputs)))
        if boss.loss == "cross_entropy":
            loss = cross_entropy(logits, targets, label_smoothing=boss.label_smoothing)
        else:
            loss = stepper.criterion.plain(logits, targets).mean()
        optimizer.zero_grad(set_to_none=True)
        stepper.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        if boss.clip_norm:
            stepper.scaler.unscale_(optimizer)
            clip_grad_norm_(model.parameters(), boss.clip_norm)
        stepper.scaler.step(optimizer)
        stepper.scaler.update()
        steps += 1
        stepper.schedule.set(steps)
        counts += torch.bincount(targets, minlength=len(counts))
    if device.type == "cuda":
        torch.cuda.synchronize()
    assert began is not None, "a budget has at least one batch"
    seconds = time.perf_counter() - began
    spent = {"cpu_s_loop": time.process_time()}
    del batches  # ends its workers, so that their time is known
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "exit_code": 0,
        "name": settings.run.name,
        "policy": PLAIN,
        "device": device_name(device),
        **_evaluated(core, trainer),
        "optimizer_steps": steps,
        "boss_instances": core.total,
        "boss_epochs": core.total / core.spec.train_size,
        "train_s": seconds,
        "kept_fraction": 1.0,
        "trained_per_class": counts.tolist(),
        "dropped_per_class": [0] * (len(counts) + 1),
        **spent,
        "cpu_s_workers": children.ru_utime + children.ru_stime,
    }


def _evaluated(core: Any, trainer: Any) -> dict[str, Any]:
    """Metrics of the splits that a run of the service would evaluate at its end."""
    import numpy as np
    import torch

    from batcher.core import EVALUATED
    from boss.evaluate import Evaluation

    found: dict[str, Any] = {f"{kind}_accuracy": None for kind in EVALUATED}
    for kind in EVALUATED:
        if kind not in core.sources:
            continue
        source = core.sources[kind]
        evaluation = Evaluation(core.spec.classes, trainer.device, trainer.stepper.criterion.plain)
        for start in range(0, source.size, core.config.batch_size):
            ids = np.arange(start, min(start + core.config.batch_size, source.size))
            _, arrays = source.take(ids)
            inputs, targets = (torch.from_numpy(arrays[name]).to(trainer.device) for name in ("inputs", "targets"))
            evaluation.add(trainer.stepper.predict(trainer.prepare.normalise(inputs)), targets)
        found |= {f"{kind}_{name}": value for name, value in evaluation.result().items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run-dir", type=Path, required=True, help="run directory with a config.toml")
    parser.add_argument("--form", choices=FORMS, required=True)
    parser.add_argument("--parent", type=int, default=os.getppid(), help="process to end with (the one it starts from)")
    args = parser.parse_args()
    if not end_with_parent(args.parent):
        return
    outlive_sigterm()
    try:
        found = train(load(args.run_dir / "config.toml", []), args.form)
    except ConfigError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    (args.run_dir / "metrics.jsonl").touch()
    summaries.write(found, args.run_dir / "summary.json")


if __name__ == "__main__":
    main()
