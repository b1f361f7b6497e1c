"""How benchmarks report: ratios of alternating pairs with their interval, a table, and one JSON line for tools."""

import json
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch


def median_interval(values: Sequence[float], confidence: float = 0.9) -> tuple[float, float, float]:
    """Median of `values` and the order statistics between which it lies with at least `confidence`.

    From the sign test: with k of n values cut at each end the coverage is 1 - 2 P[Binomial(n, 1/2) < k]. With too few
    values for that, the whole range.
    """
    ordered, n = sorted(values), len(values)
    below, cut = 0.0, 0
    while cut < n // 2:
        below += math.comb(n, cut) / 2**n
        if 1 - 2 * below < confidence:
            break
        cut += 1
    cut = max(cut - 1, 0)
    return statistics.median(ordered), ordered[cut], ordered[n - 1 - cut]


class Arm(Protocol):
    """What is measured: each call does some of it and says how much that was."""

    def __call__(self) -> int: ...

    def close(self) -> None: ...


def alternate(arms: Mapping[str, Arm], pairs: int, seconds: float, ready: int) -> dict[str, list[float]]:
    """How much of each arm is done a second, in `pairs` rounds; closes them. `ready`: calls that use up what was
    prepared before."""
    try:
        found: dict[str, list[float]] = {name: [] for name in arms}
        for _ in range(pairs):
            for name, arm in arms.items():
                found[name].append(_rate(arm, seconds, ready))
        return found
    finally:
        for arm in arms.values():
            arm.close()


def _rate(arm: Callable[[], int], seconds: float, ready: int) -> float:
    for _ in range(ready):
        arm()
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        done += arm()
    return done / (time.perf_counter() - began)


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def finish(**figures: Any) -> None:
    """Prints the last line of a benchmark: its figures and the machine as one JSON object."""
    print(json.dumps({**figures, "machine": machine()}))


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
