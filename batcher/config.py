"""Configuration of the Batcher: `[data]`, `[batcher]`, `[policy]`, and the built-in names."""

from typing import Any

from pydantic import Field

from proto.config import Section
from proto.resolver import Builtin

DATASETS = {
    "digits": Builtin(
        "batcher.datasets.digits:digits", "handwritten digits of scikit-learn, 1,797 grey 8x8 images, no download"
    ),
    "mnist": Builtin("batcher.datasets.mnist:mnist", "MNIST, 70,000 grey 28x28 images; data.root holds MNIST/raw"),
}

POLICIES = {
    "uniform": Builtin("batcher.policies:Uniform", "keeps every candidate: plain training"),
    "autoassist": Builtin(
        "batcher.policies:AutoAssist", "the AutoAssist paper's: keeps what the Assistant expects to have a high loss"
    ),
}


class DataConfig(Section):
    """The data set."""

    name: str = "digits"
    """Built-in name (see `autoassist datasets`), `package.module:callable` or `./file.py:callable`."""
    root: str = ""
    """Folder of the data set, for those that read files."""
    download: bool = False
    """Fetch the data set into `root` when it is not there."""
    val_fraction: float = Field(default=0.0, ge=0, lt=1)
    """Share of the training split cut off as validation split (always the same one); 0: none."""
    args: dict[str, Any] = Field(default_factory=dict)
    """Further arguments of the data set's callable."""


class BatcherConfig(Section):
    """The Batcher."""

    batch_size: int = Field(default=32, ge=1, le=1_000_000)
    """Kept instances in a batch."""
    workers: int = Field(default=0, ge=0, le=256)
    """Processes that decode and transform instances; 0: the Batcher does it. Each loads the data set itself. Data in
    arrays (a split with `fill`) needs none."""
    max_bad: int = Field(default=100, ge=0)
    """Instances that may be skipped because decoding them raises or gives values that are not finite; one more ends the
    run."""
    max_features: int = Field(default=256, ge=1, le=65_536)
    """Features an instance has at most, for the Assistant; larger inputs are pooled."""


class PolicyConfig(Section):
    """The policy: which candidates are kept."""

    name: str = "autoassist"
    """Built-in name (see `autoassist policies`), `package.module:Class` or `./file.py:Class`."""
    gamma: float = Field(default=0.1, ge=0, le=1)
    """Base probability: the floor of the keep probability."""
    max_lag: int = Field(default=500, ge=1)
    """When the newest version of the Assistant is more Boss steps behind than this, because the Assistant is away or
    too slow, every candidate is kept until it has caught up."""
    args: dict[str, Any] = Field(default_factory=dict)
    """Further arguments of the policy's class."""
