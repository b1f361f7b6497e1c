"""Policies: the rule that turns what is known of candidates into keep probabilities p and instance weights w.

A policy is any callable object `policy(candidates) -> (p, w)`, both float32 [n], vectorised and without a state of its
own. It asks `Candidates` only for what it needs; what it does not ask for is not computed. Its class may declare

- `assistant`: what the Assistant learns for it, "none", "above" (whether a loss is above the mean: `candidates.q`; this
  is so where nothing is declared) or "loss" (the loss itself: `candidates.predicted`);
- `base`, of its objects: p is never below it. Such a policy is gated: where selecting gains nothing, all are kept.
"""

from batcher.config import POLICIES, PolicyConfig
from batcher.policies.assisted import Assist, AutoAssist
from batcher.policies.candidates import Candidates, Policy, Progress
from batcher.policies.losses import Importance, InfoBatch, Ledger, SelectiveBackprop, SelfPaced
from batcher.policies.plain import Curriculum, Random, Uniform
from proto.resolver import make

__all__ = [
    "Assist", "AutoAssist", "Candidates", "Curriculum", "Importance", "InfoBatch", "Ledger", "Policy", "Progress",
    "Random", "SelectiveBackprop", "SelfPaced", "Uniform", "make_policy",
]  # fmt: skip


def make_policy(config: PolicyConfig) -> Policy:
    """The policy that `config` names. Raises ConfigError when it does not take its arguments, or raises."""
    made: Policy = make("policy.name", config.name, POLICIES, {"gamma": config.gamma}, config.args)
    return made
