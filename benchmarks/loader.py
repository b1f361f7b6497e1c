"""Instances per second of the Batcher against what people use: torch DataLoaders over the same data.

A real Batcher process serves this one through slots; this one reads every byte, as it does of what a DataLoader gives.
What the Batcher says to the Assistant is made and dropped. Four things are measured:

- arrays: MNIST as uint8, batch 256, policy `uniform`, against `DataLoader(MNIST)` with the best of 0, 1 and 2 workers,
  and against a DataLoader over a TensorDataset of the same uint8 arrays with a batch sampler and no workers;
- the paper's policy on it, counting candidates, against `uniform`;
- a training loop over `autoassist.Loader` against the same loop over DataLoaders (see `benchmarks.loop`);
- decoding: CIFAR-10 re-encoded to JPEG in memory, decode and random resized crop: decodes in a pass when 3 of 10 are
  kept, and, under `uniform` with 2 workers, instances per second against a DataLoader with 2 workers.

    python -m benchmarks.loader --mnist FOLDER --cifar10 FOLDER [--pairs N] [--seconds S]

MNIST and CIFAR-10 lie in their folders as torchvision puts them there, unpacked.
"""

import argparse
import io
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from batcher.datasets.idx import mnist
from batcher.plugin import Data
from benchmarks.report import alternate, finish, median_interval
from benchmarks.service import Service
from proto import scorer
from proto.learning import Weights
from proto.ledger import Ledger

BATCH = 256
JPEGS = 10_000
ENDLESS = "run.budget=1000000"
SEED = 0
READY = 8
"""Batches that may be ready before an arm is measured."""


def read(array: Any) -> int:
    """Reads every byte."""
    flat = np.asarray(array).reshape(-1).view(np.uint8)
    return int(flat[: len(flat) // 8 * 8].view(np.uint64).sum())


# -- the data that must be decoded


def encode(folder: Path, cifar10: str) -> None:
    """Writes the first `JPEGS` training images of CIFAR-10, as JPEG, into `folder`: bytes, where each ends, labels."""
    from PIL import Image
    from torchvision.datasets import CIFAR10

    images = CIFAR10(cifar10, train=True)
    parts = []
    for image in images.data[:JPEGS]:
        buffer = io.BytesIO()
        Image.fromarray(image).save(buffer, "JPEG", quality=90)
        parts.append(buffer.getvalue())
    np.save(folder / "bytes.npy", np.frombuffer(b"".join(parts), np.uint8))
    np.save(folder / "ends.npy", np.cumsum([len(part) for part in parts]))
    np.save(folder / "labels.npy", np.array(images.targets[:JPEGS]))
    np.save(folder / "decodes.npy", np.zeros(1, np.int64))


class Jpegs:
    """Items (uint8 [3, 32, 32], label), decoded and cropped anew each time; counts the decodes of its process."""

    def __init__(self, folder: str) -> None:
        from torchvision.transforms import RandomResizedCrop

        where = Path(folder)
        self._bytes, self._ends = np.load(where / "bytes.npy"), np.load(where / "ends.npy").tolist()
        self.targets = np.load(where / "labels.npy")
        self._decodes = np.load(where / "decodes.npy", mmap_mode="r+")
        self._crop = RandomResizedCrop(32)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> Any:
        from PIL import Image

        self._decodes[0] += 1
        begin = self._ends[index - 1] if index else 0
        image = Image.open(io.BytesIO(self._bytes[begin : self._ends[index]].tobytes())).convert("RGB")
        return np.ascontiguousarray(np.asarray(self._crop(image)).transpose(2, 0, 1)), int(self.targets[index])


def jpegs(folder: str) -> Data:
    """The data set of the decode-bound measurements."""
    return Data(Jpegs(folder), class_names=[str(label) for label in range(10)])


class Share:
    """A policy that keeps a fixed share."""

    def __init__(self, share: float) -> None:
        self.share = share

    def __call__(self, candidates: Any) -> Any:
        n = len(candidates)
        return np.full(n, self.share, np.float32), np.ones(n, np.float32)


# -- arms: each gives the next batch and says how many instances (or candidates) that was


class Served:
    """The Batcher's."""

    def __init__(self, *words: str, candidates: bool = False, passes: int = 0) -> None:
        self.service = Service([ENDLESS, f"batcher.batch_size={BATCH}", f"run.seed={SEED}", *words], passes=passes)
        self.candidates, self.kept, self.considered = candidates, 0, 0

    def __call__(self) -> int:
        batch = self.service.next(read)
        self.kept += len(batch.ids)
        self.considered += batch.candidates
        return batch.candidates if self.candidates else len(batch.ids)

    def close(self) -> None:
        self.service.close()


class Loaded:
    """A DataLoader's, epoch after epoch."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader = loader
        self._batches = self._endless()

    def _endless(self) -> Iterator[Any]:
        while True:
            yield from self._loader

    def __call__(self) -> int:
        inputs, _ = next(self._batches)
        read(inputs.numpy())
        return len(inputs)

    def close(self) -> None:
        self._batches.close()  # type: ignore[attr-defined]


def loader(dataset: Any, workers: int) -> DataLoader[Any]:
    keep = {"persistent_workers": True} if workers else {}
    return DataLoader(dataset, batch_size=BATCH, shuffle=True, num_workers=workers, drop_last=True, **keep)  # type: ignore[arg-type]


def by_batch(dataset: Any) -> DataLoader[Any]:
    sampler = BatchSampler(RandomSampler(dataset), BATCH, drop_last=True)
    return DataLoader(dataset, sampler=sampler, batch_size=None)


def paper(folder: str) -> Served:
    """The paper's policy in its second pass, with an Assistant that is of some use."""
    arm = Served("data.name=mnist", f"data.root={folder}", "policy.name=autoassist", candidates=True, passes=1)
    spec = arm.service.spec
    arrays = scorer.initial("above", spec.feature_dim, spec.classes)
    arrays["w"] = np.random.default_rng(SEED).normal(0, 3, spec.feature_dim).astype(np.float32)
    nobody = np.empty(0, np.int64)
    delta = {"ids": nobody, **Ledger(0).take(nobody)}
    arm.service.publish(
        Weights(
            version=1,
            step=1,
            incarnation=0,
            arrays=arrays,
            mean_loss=0.1,
            confidence=0.9,
            untrained_loss=2.3,
            selecting=True,
            full=True,
            delta_number=0,
            delta=delta,
        )
    )
    return arm


def decodes_of_a_pass(folder: Path, share: float) -> int:
    """Decodes in the second pass, when `share` of the candidates is kept."""
    policy = ("policy.name=benchmarks.loader:Share", f"policy.args.share={share}")
    arm = Served("data.name=benchmarks.loader:jpegs", f'data.args.folder="{folder}"', *policy)
    counter = np.load(folder / "decodes.npy", mmap_mode="r")
    counts: list[int] = []
    try:
        while arm.considered < 2 * JPEGS:
            arm()
            if arm.considered >= JPEGS and not counts:
                counts.append(int(counter[0]))
        return int(counter[0]) - counts[0]
    finally:
        arm.close()


def measure(mnist_folder: str, cifar10: str, pairs: int, seconds: float) -> dict[str, list[float]]:
    from torchvision.datasets import MNIST
    from torchvision.transforms import ToTensor

    from benchmarks.loop import loops

    split: Any = mnist(mnist_folder).train
    arrays = TensorDataset(torch.from_numpy(split.inputs), torch.from_numpy(split.targets))
    uniform = "data.name=mnist", f"data.root={mnist_folder}", "policy.name=uniform"
    arms: dict[str, Any] = {"tensor_dataset": Loaded(by_batch(arrays)), "uniform": Served(*uniform)}
    arms |= {"paper": paper(mnist_folder)}
    found = alternate(arms, pairs, seconds, READY)
    items = MNIST(mnist_folder, transform=ToTensor())
    arms = {f"mnist_{workers}_workers": Loaded(loader(items, workers)) for workers in (0, 1, 2)}
    found |= {f"{name}_again" if name == "uniform" else name: values for name, values in
              alternate({**arms, "uniform": Served(*uniform)}, pairs, seconds, READY).items()}  # fmt: skip
    found |= alternate(loops(mnist_folder), pairs, seconds, READY)
    with tempfile.TemporaryDirectory() as folder:
        encode(Path(folder), cifar10)
        found["decodes"] = [float(decodes_of_a_pass(Path(folder), share)) for share in (1.0, 0.3)]
        words = "data.name=benchmarks.loader:jpegs", f'data.args.folder="{folder}"', "policy.name=uniform"
        arms = {"jpeg_loader": Loaded(loader(Jpegs(folder), 2)), "jpeg": Served(*words, "batcher.workers=2")}
        found |= alternate(arms, pairs, 2 * seconds, READY)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mnist", required=True, help="folder that holds MNIST/raw")
    parser.add_argument("--cifar10", required=True, help="folder that holds cifar-10-batches-py")
    parser.add_argument("--pairs", type=int, default=7, help="alternating rounds to measure (7)")
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="length of one measurement (1; decoding: twice that)"
    )
    args = parser.parse_args()
    torch.set_num_threads(1)
    found = measure(args.mnist, args.cifar10, args.pairs, args.seconds)
    best = max((f"mnist_{workers}_workers" for workers in (0, 1, 2)), key=lambda name: median_interval(found[name])[0])
    best_loop = max((name for name in found if "loop_dataloader" in name), key=lambda n: median_interval(found[n])[0])
    table = Table("what", "instances/s", "against", "instances/s", "ratio, 90 % interval")
    figures: dict[str, Any] = {"best_mnist_loader": best, "best_loop": best_loop}
    for key, mine, other in (
        ("ratio_arrays_vs_dataloader", "uniform_again", best),
        ("ratio_arrays_vs_tensor_dataset", "uniform", "tensor_dataset"),
        ("ratio_paper_vs_uniform_candidates", "paper", "uniform"),
        ("ratio_loader_vs_dataloader", "loop_loader", best_loop),
        ("ratio_loader_vs_batch_sampler", "loop_loader", "loop_batch_sampler"),
        ("ratio_decoding_vs_dataloader", "jpeg", "jpeg_loader"),
    ):
        ratio, low, high = median_interval([a / b for a, b in zip(found[mine], found[other], strict=True)])
        figures |= {key: round(ratio, 3), f"{key}_interval": [round(low, 3), round(high, 3)]}
        rates = (f"{median_interval(found[name])[0]:,.0f}" for name in (mine, other))
        table.add_row(mine, next(rates), other, next(rates), f"{ratio:.2f} ({low:.2f} to {high:.2f})")
    every, some = found.pop("decodes")
    figures["ratio_decodes_per_pass"] = round(every / some, 3)
    console = Console()
    console.print(table)
    console.print(
        f"decodes in the second pass: {every:,.0f}, with 3 of 10 kept {some:,.0f}: {every / some:.2f} x fewer"
    )
    finish(**figures, **{f"{name}_instances_per_s": [round(v) for v in vs] for name, vs in found.items()}, seeds=[SEED])


if __name__ == "__main__":
    main()
