"""What is compared: arms, written as `[NAME=]POLICY[@BUDGET][:section.key=value]...`, and grids to tune over. Pure."""

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from proto.errors import ConfigError

BASELINE = "uniform"
"""Name and policy of the arms that all others are compared with."""
PLAIN = "dataloader"
"""Name of the arms that are a plain PyTorch loop."""
OWN = ("policy.", "assistant.")
"""Only keys of these sections may differ between arms. A comparison in which one arm has a larger batch, more threads
or another augmentation is none."""
NAMED = "policy.name"
"""But for this one, by which an arm would be another than it is called."""
TUNED = ("boss.lr", "boss.momentum", "boss.weight_decay", "boss.warmup", "boss.clip_norm")
"""Further keys that --tune may choose, for each arm by itself: all have the same grid."""

Words = tuple[str, ...]
"""Overrides `section.key=value`."""


@dataclass(frozen=True)
class Arm:
    """A policy with overrides of its own, trained for `budget` Boss epochs."""

    name: str
    policy: str
    budget: float
    words: Words = ()

    @property
    def label(self) -> str:
        return f"{self.name}@{self.budget:g}"


def parse_arms(text: str, budgets: Sequence[float]) -> list[Arm]:
    """The arms that --policies and --budgets name, and `uniform` at each budget that occurs among them.

    Raises ConfigError for an arm that cannot be, or would not be comparable.
    """
    arms = [arm for part in _apart(text, ",") if part for arm in _parse(part, budgets)]
    everywhere = sorted({arm.budget for arm in arms} | set(budgets))
    baseline = [Arm(BASELINE, BASELINE, budget) for budget in everywhere]
    return baseline + _distinct([arm for arm in arms if arm not in baseline])


def parse_budgets(text: str) -> list[float]:
    """The numbers in `text`, rising, each once. Raises ConfigError unless all are positive."""
    try:
        budgets = sorted({float(part) for part in text.split(",") if part})
    except ValueError:
        budgets = [0.0]
    if any(not 0 < budget < float("inf") for budget in budgets):
        raise ConfigError("--budgets", text, "must be positive Boss epochs, such as 2,4")
    return budgets


def parse_grid(options: Iterable[str]) -> list[Words]:
    """All combinations of the values of --tune, each as overrides; without one, a single empty combination.

    Raises ConfigError for what must be equal in all arms, and for what is no choice.
    """
    axes: dict[str, list[str]] = {}
    for option in options:
        key, equals, text = option.partition("=")
        values = list(dict.fromkeys(_apart(text, ",")))
        if not equals or not all(values):
            raise ConfigError("--tune", option, "is not section.key=value,value,...")
        if key == NAMED or (key not in TUNED and not key.startswith(OWN)):
            allowed = f"{', '.join(TUNED)}, {', '.join(f'{own}*' for own in OWN)}"
            raise ConfigError("--tune", key, f"must be the same in all arms; allowed: {allowed}")
        if key in axes:
            raise ConfigError("--tune", option, f"{key} is there twice; give it all its values at once")
        if len(values) == 1:
            raise ConfigError("--tune", option, f"one value is no choice; {option} without --tune sets it for all arms")
        axes[key] = [f"{key}={value}" for value in values]
    return list(itertools.product(*axes.values()))


def grid_of(arm: Arm, grid: Sequence[Words]) -> list[Words]:
    """Those combinations of `grid` that differ for `arm`: the baselines have no policy to tune, and what an arm sets
    itself stays."""
    fixed = OWN if arm.policy == BASELINE else tuple(f"{word.partition('=')[0]}=" for word in arm.words)
    return list(dict.fromkeys(tuple(word for word in words if not word.startswith(fixed)) for words in grid))


def _apart(text: str, mark: str) -> list[str]:
    """`text` at each `mark` that stands in no brackets and no quotes, stripped."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
        if character == mark and not quote and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _parse(text: str, budgets: Sequence[float]) -> list[Arm]:
    named = re.match(r"([^:=@]+)=", text)
    pieces = _apart(text[named.end() :] if named else text, ":")
    head = ":".join(itertools.takewhile(lambda piece: "=" not in piece, pieces))
    words = tuple(pieces[head.count(":") + 1 :] if head else pieces)
    policy, at, budget = head.rpartition("@")
    if not at or "/" in budget:  # none, or one in a path
        policy, at = head, ""
    name = named.group(1) if named else policy.rpartition(":")[2]
    if not policy or not re.fullmatch(r"[\w.+-]+", name):
        raise ConfigError("--policies", text, "is not [NAME=]POLICY[@BUDGET][:section.key=value]...")
    for word in words:
        if not word.startswith(OWN) or "=" not in word or word.startswith(NAMED):
            allowed = ", ".join(f"{own}*" for own in OWN)
            raise ConfigError("--policies", word, f"arms may differ in these keys only: {allowed}")
    own = parse_budgets(budget) if at else list(budgets)
    if not own:
        raise ConfigError("--policies", text, "has no budget; add @BUDGET, or --budgets for all")
    if name == PLAIN or (name == BASELINE and (policy != BASELINE or words)):
        raise ConfigError("--policies", text, f"{name} is the baseline's name; choose another one: NAME={head}")
    return [Arm(name, policy, one, words) for one in own]


def _distinct(arms: list[Arm]) -> list[Arm]:
    found: dict[str, Arm] = {}
    for arm in arms:
        if found.setdefault(arm.label, arm) != arm:
            raise ConfigError("--policies", arm.name, f"two arms are called {arm.label}; name one: NAME={arm.policy}")
    return list(found.values())
