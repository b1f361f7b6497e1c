"""The gate: the Assistant watches whether selecting gains anything, and stops it where not."""

from assistant.sample import Gain

ENOUGH = 512
"""Candidates that must have been sampled before selecting begins."""
BEGINS = 100
"""Reports before selecting begins. There is a gain earlier, but what is dropped then is missed: a gate that opens
within the first dozens of steps leaves a higher test loss than plain training."""
MARGIN = 0.01
"""The gate opens where the gain's interval is above this, and closes where it reaches 0: between the two it stays."""

RISE = 100
"""Reports from the opening until the policy's word counts in full. Batches of nothing but high losses, all at once,
have larger gradients than the rate was made for: the loss can jump, and the network with it."""


class Gate:
    """Open while selecting gains something; closed, everything is kept. It begins closed, opens slowly and closes at
    once."""

    def __init__(self) -> None:
        self.share = 0.0
        """How much of the policy's word counts: 0 where the gate is closed, 1 where it is wide open."""

    @property
    def open(self) -> bool:
        return self.share > 0

    def judge(self, gain: Gain, reports: int) -> bool:
        """Takes in the gain as it is after so many `reports`; True when that opened or closed the gate."""
        before = self.open
        stays = gain.low > 0 if before else reports >= BEGINS and gain.n >= ENOUGH and gain.low > MARGIN
        self.share = min(1.0, self.share + 1 / RISE) if stays else 0.0
        return self.open != before
