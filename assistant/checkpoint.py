"""The Assistant's part of a checkpoint: weights, ledger, mean, confidence, and the snapshots the Batcher may need."""

from pathlib import Path

from safetensors.numpy import load_file, save_file

from assistant.history import History
from assistant.learner import Learner, under
from proto import checkpoint


def save(run_dir: Path, name: str, learner: Learner, history: History | None) -> dict[str, str]:
    """Writes the part; returns the digests of its files. Raises OSError."""
    arrays, plain = learner.state()
    tensors = {f"learner.{key}": array for key, array in arrays.items()}
    snapshots: list[dict[str, int | float]] = []
    if history is not None:
        recent, snapshots = history.state()
        tensors |= {f"history.{key}": array for key, array in recent.items()}
    rest = {"learner": plain, "history": snapshots}
    return checkpoint.write_part(run_dir, name, "assistant", lambda path: save_file(tensors, path), rest)


def load(run_dir: Path, name: str, learner: Learner, history: History | None) -> None:
    """Brings `learner` and `history` to where they were when the part was written."""
    tensors = load_file(checkpoint.tensors_path(run_dir, name, "assistant"))
    plain = checkpoint.read_plain(run_dir, name, "assistant")
    learner.load(under("learner.", tensors), plain["learner"])
    if history is not None:
        history.load(under("history.", tensors), plain["history"])
