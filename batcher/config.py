"""Configuration of the Batcher: `[data]`, `[batcher]`, `[policy]`, and the built-in names."""

from typing import Any, Literal

from pydantic import Field

from proto.config import Section
from proto.resolver import Builtin, Registry

DATASETS = Registry(
    "autoassist.datasets",
    {
        "digits": Builtin(
            "batcher.datasets.digits:digits", "handwritten digits of scikit-learn, 1,797 grey 8x8 images, no download"
        ),
        "mnist": Builtin("batcher.datasets.idx:mnist", "MNIST, 70,000 grey 28x28 images; data.root holds MNIST/raw"),
        "fashion_mnist": Builtin(
            "batcher.datasets.idx:fashion_mnist", "Fashion-MNIST, as MNIST; data.root holds FashionMNIST/raw"
        ),
        "rotated_mnist": Builtin("batcher.datasets.rotated:rotated_mnist", "MNIST, each image turned by its own angle"),
        "cifar10": Builtin("batcher.datasets.cifar:cifar10", "CIFAR-10, 60,000 colour 32x32 images"),
        "cifar100": Builtin("batcher.datasets.cifar:cifar100", "CIFAR-100, the same in 100 classes"),
        "imagenet": Builtin("batcher.datasets.images:imagenet", "ImageNet; data.root holds train/ and val/"),
        "images": Builtin("batcher.datasets.images:images", "a folder of images: data.root/train/CLASS/NAME.jpg"),
        "numpy": Builtin("batcher.datasets.numpy_files:numpy_files", "x_train, y_train, ... in .npy or .npz files"),
        "libsvm": Builtin("batcher.datasets.libsvm:libsvm", "LIBSVM files, sparse in memory"),
        "csv": Builtin("batcher.datasets.table:table", "CSV tables: a header line, one instance a line"),
        "text": Builtin("batcher.datasets.text:text", "one label and one text a line"),
        "trec": Builtin("batcher.datasets.text:trec", "TREC questions: COARSE:fine and one question a line"),
        "huggingface": Builtin(
            "batcher.datasets.huggingface:huggingface", "a data set that Hugging Face datasets has saved to disk"
        ),
    },
)
"""Names of data sets; further ones are registered by installed packages, in the entry-point group of that name."""

POLICIES = Registry(
    "autoassist.policies",
    {
        "assist": Builtin("batcher.policies:Assist", "the default: p from the loss that the Assistant predicts, gated"),
        "uniform": Builtin("batcher.policies:Uniform", "keeps every candidate: plain training"),
        "autoassist": Builtin(
            "batcher.policies:AutoAssist",
            "the AutoAssist paper's: keeps what the Assistant expects to have a high loss",
        ),
        "ledger": Builtin("batcher.policies:Ledger", "p from the last loss, by a soft or a hard rule"),
        "infobatch": Builtin(
            "batcher.policies:InfoBatch", "drops half of what is below the mean loss, the rest weighs more"
        ),
        "selective_backprop": Builtin("batcher.policies:SelectiveBackprop", "p from the rank of the last loss"),
        "importance": Builtin("batcher.policies:Importance", "p in proportion to the last loss, w = 1 / p"),
        "self_paced": Builtin("batcher.policies:SelfPaced", "low last losses first, then more and more"),
        "curriculum": Builtin("batcher.policies:Curriculum", "easy instances first, by a file or the Assistant"),
        "random": Builtin("batcher.policies:Random", "keeps a share, whichever: a control"),
    },
)


class DataConfig(Section):
    """The data set."""

    name: str = "digits"
    """Known name (see `autoassist datasets`), `package.module:callable` or `./file.py:callable`."""
    root: str = ""
    """Folder of the data set, for those that read files."""
    download: bool = False
    """Fetch the data set into `root` when it is not there."""
    val_fraction: float = Field(default=0.0, ge=0, lt=1)
    """Share of the training split cut off as validation split (always the same one); 0: none."""
    test: Literal["always", "end", "never"] = "always"
    """When the test split is evaluated: "always" (each `boss.eval_every` Boss epochs and at the end), "end", "never".
    What chooses between runs should look at a validation split and leave the test split alone until the end."""
    epoch_size: int = Field(default=0, ge=0)
    """For a stream: instances that count as one Boss epoch, so that `run.budget` times this many are trained; 0: as
    many as its len() says."""
    args: dict[str, Any] = Field(default_factory=dict)
    """Further arguments of the data set's callable."""


class BatcherConfig(Section):
    """The Batcher."""

    batch_size: int = Field(default=32, ge=1, le=1_000_000)
    """Kept instances in a batch."""
    max_tokens: int = Field(default=0, ge=0, le=2**40)
    """Positions in a batch at most, padding included, in place of `batch_size`; for instances that differ in length,
    which are then put together by length. At least three times the longest instance; 0: off."""
    workers: int = Field(default=0, ge=0, le=256)
    """Processes that decode and transform instances; 0: the Batcher does it. Each loads the data set itself. Data in
    arrays (a split with `fill`) needs none. As many more read the shards of a stream that shards itself."""
    max_bad: int = Field(default=100, ge=0)
    """Instances that may be skipped because decoding them raises or gives values that are not finite; one more ends the
    run."""
    max_features: int = Field(default=256, ge=1, le=65_536)
    """Features an instance has at most, for the Assistant; larger inputs are pooled."""


class PolicyConfig(Section):
    """The policy: which candidates are kept."""

    name: str = "assist"
    """Built-in name (see `autoassist policies`), `package.module:Class` or `./file.py:Class`."""
    gamma: float = Field(default=0.1, ge=0, le=1)
    """Base probability: the floor of the keep probability."""
    max_lag: int = Field(default=500, ge=1)
    """When the newest version of the Assistant is more Boss steps behind than this, because the Assistant is away or
    too slow, every candidate is kept until it has caught up."""
    args: dict[str, Any] = Field(default_factory=dict)
    """Further arguments of the policy's class."""
