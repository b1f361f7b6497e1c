"""The gate: the Assistant watches whether selecting gains anything, and stops it where not."""

from assistant.sample import Gain

ENOUGH = 512
"""Candidates that must have been sampled before selecting begins."""
BEGINS = 100
"""Reports before selecting begins. There is a gain earlier, but what is dropped then is missed: a gate that opens
within the first dozens of steps leaves a higher test loss than plain training."""
MARGIN = 0.01
"""The gate opens where the gain's interval is above this, and closes where it reaches 0: between the two it stays."""


class Gate:
    """Open while selecting gains something. It begins closed: everything is kept."""

    def __init__(self) -> None:
        self.open = False

    def judge(self, gain: Gain, reports: int) -> bool:
        """Takes in the gain as it is after so many `reports`; True when that opened or closed the gate."""
        before = self.open
        self.open = gain.low > 0 if self.open else reports >= BEGINS and gain.n >= ENOUGH and gain.low > MARGIN
        return self.open != before
