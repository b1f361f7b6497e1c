"""CIFAR-10 with flips and crops: a policy at 8 Boss epochs against uniform at 10, and at 8.

A small CNN with batch norm, otherwise as `benchmarks.mnist_budget`. The folder holds cifar-10-batches-py.

    python -m benchmarks.cifar_budget data.root=FOLDER [--policy P] [--seeds N] [section.key=value ...]
"""

from benchmarks.comparison import against_more_budget

WORDS = [
    "data.name=cifar10", "boss.model=small_cnn", "boss.args.batch_norm=true", "boss.flip=true", "boss.crop=4",
    "boss.schedule=one_cycle", "batcher.batch_size=128", "run.serial=true",
]  # fmt: skip
OPTIONS = {"seeds": 3, "budget": 10.0, "share": 0.8, "rates": "0.05,0.1,0.2", "bar": -0.30}

if __name__ == "__main__":
    against_more_budget(__doc__, "cifar-budget", WORDS, OPTIONS)
