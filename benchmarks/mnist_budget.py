"""MNIST: a policy with 0.55 of the Boss epochs against uniform with all of them, and with as few.

A small CNN with batch norm under a one-cycle schedule that is decayed to its own budget; rates are tuned for each arm
by itself on a validation split; seeds are paired. `lower_bound_points` is the lower end of the 90 % interval of the
policy's accuracy minus uniform's at the full budget; `mean_above_uniform_points` its mean above uniform's at its own.

    python -m benchmarks.mnist_budget data.root=FOLDER [--policy P] [--seeds N] [section.key=value ...]
"""

from benchmarks.comparison import against_more_budget

WORDS = [
    "data.name=mnist", "boss.model=small_cnn", "boss.args.batch_norm=true", "boss.schedule=one_cycle",
    "batcher.batch_size=128", "run.serial=true",
]  # fmt: skip
OPTIONS = {"seeds": 5, "budget": 4.0, "share": 0.55, "rates": "0.05,0.1,0.2", "bar": -0.10}

if __name__ == "__main__":
    against_more_budget(__doc__, "mnist-budget", WORDS, OPTIONS)
