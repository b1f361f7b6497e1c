"""Whether another package hides one of ours: `proto` and `boss` are names that others have, too."""

from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("proto", "boss", "assistant", "batcher")


def shadowed() -> str | None:
    """One line on the first of our packages that another one of its name hides, or None."""
    ours = Path(__file__).resolve().parent.parent
    for name in PACKAGES:
        spec = find_spec(name)
        found = Path(spec.origin).resolve().parent if spec and spec.origin else None
        if found != ours / name:
            return (
                f"package {name} = {found or 'not found'}: hides AutoAssist's own in {ours / name}; "
                "install autoassist in an environment of its own, or leave the folder that holds it"
            )
    return None
