"""Makes checkpoints whole: when every process has written its part, the manifest is added and the folder renamed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from proto import checkpoint
from proto.control import Part
from proto.messages import Role

PARTS: tuple[Role, ...] = ("boss", "assistant")
"""Who writes a part. The Batcher writes none: where its stream stands travels with the batches, to the Boss."""


class Collector:
    """Collects the parts of a run's checkpoints."""

    def __init__(self, run_dir: Path, facts: Callable[[], dict[str, Any]], say: Callable[[str, str], None]) -> None:
        """`facts()` is what else the manifest keeps; `say(line, style)` shows a line to the user."""
        self.run_dir, self._facts, self._say = run_dir, facts, say
        self._parts: dict[str, dict[Role, Part]] = {}
        self.written = 0

    def add(self, role: Role, part: Part) -> None:
        """`role` has written its part. A disk that refuses the manifest is a warning; training goes on."""
        parts = self._parts.setdefault(part.name, {})
        parts[role] = part
        if not all(needed in parts for needed in PARTS):
            return
        files = {name: digest for one in parts.values() for name, digest in one.files.items()}
        plain = {key: value for one in parts.values() for key, value in one.plain.items()}
        try:
            checkpoint.complete(self.run_dir, part.name, {"files": files, **plain, **self._facts()})
            self.written += 1
        except OSError as error:
            self.refused(part.name, error)
        # Parts of older ones that never came together will not any more.
        self._parts = {name: rest for name, rest in self._parts.items() if name > part.name}

    def refused(self, name: str, error: OSError) -> None:
        """The disk did not take what belongs to checkpoint `name`."""
        self._say(f"checkpoint {name} not written: {error}; the one before it stays", "yellow")

    def settle(self) -> None:
        """The run has ended. Where the Assistant was away, the part it wrote last serves for the newest checkpoint."""
        for name, parts in sorted(self._parts.items(), reverse=True)[:1]:
            if "boss" not in parts:
                continue
            try:
                files = checkpoint.borrow(self.run_dir, name, "assistant")
            except OSError as error:
                self.refused(name, error)
                continue
            if files:
                self.add("assistant", Part(name=name, files=files, plain={}))
