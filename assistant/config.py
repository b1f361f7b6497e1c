"""Configuration of the Assistant: `[assistant]`."""

from pydantic import Field

from proto.config import Section


class AssistantConfig(Section):
    """The Assistant."""

    lr: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """Step size of its SGD; for a network the factor of Adam's, which is 0.003. Features have a mean squared norm of 1,
    so it means the same for any data set."""
    threads: int = Field(default=1, ge=1, le=1024)
    """CPU threads it computes with."""
    window: int = Field(default=8192, ge=1, le=10_000_000)
    """Its accuracy and AUC are those of its last `window` predictions, each made before learning from it."""
