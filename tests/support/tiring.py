"""A user's policy that does something wrong once it has been asked often enough."""

TIRING = """
import numpy as np

class Tiring:
    assistant, calls = "none", 0

    def __call__(self, candidates):
        self.calls += 1
        if self.calls > {most}:
            {end}
        return np.ones(len(candidates)), np.ones(len(candidates))
"""


def tiring(most: int, end: str) -> str:
    """The code of a policy `Tiring` that does `end`, in line 10, in each call after the first `most`."""
    return TIRING.format(most=most, end=end)
