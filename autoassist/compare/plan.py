"""Which runs a comparison takes, in which order, and the settings of each. Nothing is run or read here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from autoassist import launch as launching
from autoassist.compare.arms import Arm, Words, grid_of
from autoassist.config import Settings, change
from autoassist.sweep import Launch, Run
from batcher.config import POLICIES, PolicyConfig
from proto.resolver import check_name

VAL_FRACTION = 0.1
"""Share of the training split that tuning validates on where there is no validation split."""
TUNE_SEED = 10_000
"""Tuning has seeds of its own, so many after the comparison's: no arm is tuned to the seeds it is judged on."""


@dataclass(frozen=True)
class Plan:
    """A comparison of `arms` over `seeds` seeds, the first of them that of `settings`."""

    settings: Settings
    arms: Sequence[Arm]
    seeds: int
    grid: Sequence[Words] = ((),)
    """What is tried in tuning, for each arm at each of its budgets."""
    tune_seeds: int = 1
    tune_val_fraction: float = VAL_FRACTION
    """`data.val_fraction` of the tuning runs."""
    test: Literal["end", "always"] = "end"
    """When the runs that count evaluate the test split. "always" draws a curve, and must steer nothing."""
    launches: Mapping[str, tuple[str, Launch]] = field(default_factory=dict)
    """Kind and launcher of those arms, by name, that are not a run of the service."""

    @property
    def tuned(self) -> bool:
        return len(self.grid) > 1

    @property
    def final_seeds(self) -> list[int]:
        return [self.settings.run.seed + k for k in range(self.seeds)]

    def arms_called(self, name: str) -> list[Arm]:
        """The arms of that name, by rising budget."""
        return sorted((arm for arm in self.arms if arm.name == name), key=lambda arm: arm.budget)

    def tuning(self) -> list[tuple[Arm, Words, Run]]:
        """The tuning runs: each arm that has a choice with each combination of its grid. They see no test split."""
        runs = []
        for seed in range(self.tune_seeds):
            for k in range(len(self.grid)):
                for arm in self.arms:
                    grid = grid_of(arm, self.grid)
                    if k < len(grid) > 1:
                        runs.append((arm, grid[k], self._tuning_run(arm, k, grid[k], seed)))
        return runs

    def final(self, chosen: Mapping[Arm, Words]) -> list[tuple[Arm, Run]]:
        """The runs that count, each arm with its `chosen` combination.

        Arms take turns, each time beginning with another one, so that drift of the machine hits all alike.
        """
        runs = []
        for k, seed in enumerate(self.final_seeds):
            turn = k % len(self.arms)
            for arm in [*self.arms[turn:], *self.arms[:turn]]:
                words = (*chosen.get(arm, ()), f'data.test="{self.test}"')
                runs.append((arm, self._run(arm, f"{arm.label}-{seed}", words, seed)))
        return runs

    def check(self) -> None:
        """Raises ConfigError for the first run that cannot be, before any is made."""
        for arm in self.arms:
            check_name("--policies", arm.policy, POLICIES)
        self.tuning()
        self.final({})

    def _tuning_run(self, arm: Arm, k: int, words: Words, seed: int) -> Run:
        apart = (*words, 'data.test="never"', f"data.val_fraction={self.tune_val_fraction!r}")
        return self._run(arm, f"tune-{arm.label}-{k}-{seed}", apart, self.settings.run.seed + TUNE_SEED + seed)

    def _run(self, arm: Arm, name: str, words: Words, seed: int) -> Run:
        """A run of `arm`: the plan's settings, but for policy, budget, seed and `words`.

        The `[policy]` section of the plan's settings is for the policy that it names; other policies have the defaults.
        """
        settings = self.settings
        if arm.policy != settings.policy.name:
            settings = settings.model_copy(update={"policy": PolicyConfig(name=arm.policy)})
        # Writing checkpoints is no part of what is compared; a run that is interrupted is made again.
        always = (f"run.budget={arm.budget!r}", f"run.seed={seed}", "boss.checkpoint_every=0.0")
        kind, launch = self.launches.get(arm.name, ("service", launching.launch))
        return Run(name, change(settings, [*arm.words, *words, *always]), launch, kind)
