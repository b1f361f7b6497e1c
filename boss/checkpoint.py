"""What the Boss keeps on disk: its part of each checkpoint, and weights alone."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from boss.account import Account
from boss.outlet import LossOutlet
from boss.state import State
from proto import checkpoint
from proto.batches import Batch
from proto.control import Part, Saving
from proto.learning import Mark
from proto.messages import Value

MOST_AGAIN = 1000
"""A checkpoint is taken once at least one part in so many of what is trained was trained since the last one: a million
Boss epochs of little data must not write a terabyte, and so much is soon trained again."""


class Trains(Protocol):
    """What a checkpoint needs of the trainer."""

    improved: bool

    @property
    def between_steps(self) -> bool: ...

    @property
    def evaluated(self) -> nn.Module: ...

    def state(self) -> State: ...

    def load(self, state: State) -> None: ...


class Checkpointer:
    """Takes a checkpoint each time another `every` instances are trained (0: never), at the end of a step; less often,
    see `MOST_AGAIN`, once that is over a thousand times as many."""

    def __init__(
        self,
        run_dir: Path,
        every: int,
        trainer: Trains,
        account: Account,
        outlet: LossOutlet,
        tell: Callable[[Part | Saving], None],
        warn: Callable[[str], None],
    ) -> None:
        """`tell` is given what the supervisor is told before a part is written and once it is on disk, `warn` what
        the user should see."""
        self.run_dir, self.every, self.trainer = run_dir, every, trainer
        self.account, self.outlet, self._tell, self._warn = account, outlet, tell, warn
        self.written = self.failed = 0
        self._last = account.trained

    def after_batch(self, batch: Batch) -> None:
        """Takes one now if it is time."""
        trained, last = self.account.trained, self._last
        due = self.every and trained // self.every > last // self.every and trained - last >= trained // MOST_AGAIN
        if due and self.trainer.between_steps:
            self.save()

    def after_evaluation(self, values: Mapping[str, Value]) -> None:
        """Keeps the weights as best.safetensors if `values` tell of the best validation so far."""
        if "validation_loss" in values and self.trainer.improved:
            try:
                save_weights(self.trainer.evaluated.state_dict(), self.run_dir / "best.safetensors")
            except OSError as error:
                self.failed += 1
                self._warn(f"best.safetensors not written: {error}; the one before it stays")

    def save(self) -> None:
        """Writes the Boss's part and marks the place for the Assistant's. A failure is logged; training goes on."""
        if self.account.trained == self._last:
            return
        self._last = self.account.trained
        self._tell(Saving())
        name = checkpoint.name_of(self.account.batches)
        state = self.trainer.state()
        # On the device the newest reports may still be copying; the mark must come after them.
        self.outlet.flush(wait=True)
        plain = {
            "trainer": state.plain,
            "account": self.account.plain(),
            "reports": {"made": self.outlet.made, "dropped": self.outlet.dropped},
        }
        tensors = _apart(state.tensors)
        try:
            files = checkpoint.write_part(self.run_dir, name, "boss", lambda path: save_file(tensors, path), plain)
        except OSError as error:
            self.failed += 1
            self._warn(f"checkpoint {name} not written: {error}; the one before it stays, training goes on")
            return
        self.written += 1
        self._tell(
            Part(name=name, files=files, plain={"trained": self.account.trained, "evaluated": self.account.evaluated})
        )
        self.outlet.mark(Mark(name=name, batches=self.account.batches))


def load(run_dir: Path, name: str, trainer: Trains, account: Account, outlet: LossOutlet) -> None:
    """Brings the Boss to where it was when the part was written."""
    plain = checkpoint.read_plain(run_dir, name, "boss")
    trainer.load(State(load_file(checkpoint.tensors_path(run_dir, name, "boss")), plain["trainer"]))
    account.load(plain["account"])
    outlet.made, outlet.dropped = plain["reports"]["made"], plain["reports"]["dropped"]


def save_weights(tensors: dict[str, torch.Tensor], path: Path) -> None:
    """Writes weights as safetensors, whole or not at all."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with checkpoint.writing():
            save_file(_apart(tensors), partial)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _apart(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors on the CPU, none sharing memory with another (as tied weights do), which safetensors refuses."""
    found: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for key, tensor in tensors.items():
        plain = tensor.detach().cpu().contiguous()
        place = plain.untyped_storage().data_ptr()
        found[key] = plain.clone() if place in seen else plain
        seen.add(place)
    return found
