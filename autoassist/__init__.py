"""AutoAssist: the same accuracy for less GPU time.

A Boss trains your model, an Assistant learns which instances still matter, a Batcher drops the rest before they reach
the GPU. This package is the front door: configuration, command line, supervisor, live view, summary; and `Loader`, for
training loops that exist already.
"""

from typing import TYPE_CHECKING, Any

from autoassist.shadow import shadowed

if TYPE_CHECKING:
    from autoassist.batch import Batch as Batch
    from autoassist.loader import Loader as Loader

__all__ = ["Batch", "Loader"]


def __getattr__(name: str) -> Any:
    # Imported when asked for: both import torch, which the command line does without.
    if name in __all__ and (problem := shadowed()):
        raise ImportError(problem)
    if name == "Loader":
        from autoassist.loader import Loader

        return Loader
    if name == "Batch":
        from autoassist.batch import Batch

        return Batch
    raise AttributeError(f"module 'autoassist' has no attribute {name!r}")
