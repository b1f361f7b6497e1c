"""One stream of batches for the process that trains alone, or for several that train one model (DDP).

Of several, rank 0 has the service. Batch k of the stream goes to rank k mod R, so the ranks together take R batches for
one step. All that passes between them goes through a gloo group of our own, in `next`, which all ranks call together
anyway; as the messages that it would be elsewhere, so nothing is unpickled. All ranks stop at the same step: the fewer
than R batches that may be left then are not trained.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from autoassist.service import Service
from boss.outlet import LossOutlet
from proto.batches import Batch
from proto.codec import Codec
from proto.control import DataSpec, Stop
from proto.learning import Losses
from proto.messages import Message

BATCH, END, FAILED, SPEC = 1, 2, 3, 4


def present() -> "Alone | Ranks":
    """The ranks of the process group that this process is in, if there are several."""
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        return Ranks()
    return Alone()


class Alone:
    """The only rank: everything is between it and its service."""

    rank, count = 0, 1

    def __init__(self) -> None:
        self.trained = 0
        """Instances that had been trained when the service began."""

    def spec(self, service: Service | None) -> DataSpec:
        assert service is not None, "rank 0 has the service"
        return service.spec

    def fail(self, error: Exception) -> None:
        """There is nobody to be told."""

    def collect(self, service: Service | None) -> None:
        """There are no reports but its own."""

    def next(self, service: Service | None) -> tuple[Batch | None, float]:
        """The next batch, in its slot, None at the end; its mean is the whole one."""
        assert service is not None, "rank 0 has the service"
        return service.next(), 1.0

    def release(self, service: Service | None, batch: Batch) -> None:
        """Gives its slot back."""
        assert service is not None, "rank 0 has the service"
        service.release(batch)

    def outlet(self, service: Service | None) -> LossOutlet | None:
        """Where reports go; None where nobody takes them."""
        return service.outlet if service is not None and service.running else None

    def close(self) -> None:
        """It holds nothing."""


class Ranks:
    """This rank's end, one of several."""

    def __init__(self) -> None:
        """All ranks make theirs at the same time."""
        self.rank, self.count = dist.get_rank(), dist.get_world_size()
        self._group: Any = dist.new_group(backend="gloo")
        self._codec = Codec("ranks")
        self._made: list[Losses] = []
        self._kept = LossOutlet(self._keep, limit=1_000_000)
        """Where the reports of a rank other than 0 go."""
        self.trained = 0
        """Instances that all ranks have been given."""

    def _keep(self, message: Message) -> bool:
        assert isinstance(message, Losses), "rank 0 alone makes marks"
        self._made.append(message)
        return True

    # -- together

    def spec(self, service: Service | None) -> DataSpec:
        """What rank 0's `service` says of the data set. Raises RuntimeError when rank 0 has failed to start it."""
        found, _ = self._share(SPEC, None if service is None else [service.spec] * self.count, service)
        if isinstance(found, Stop):
            raise RuntimeError(found.reason)
        assert isinstance(found, DataSpec)
        return found

    def fail(self, error: Exception) -> None:
        """Has all ranks that wait for rank 0 raise what it raises."""
        self._share(FAILED, [Stop(reason=f"rank 0: {error}"[:1000])] * self.count)

    def collect(self, service: Service | None) -> None:
        """Brings the reports of all ranks to rank 0, and to the Assistant."""
        self._kept.flush(wait=True)
        mine, self._made = [self._pack(message) for message in self._made], []
        counts = self._gathered(torch.tensor([sum(len(part) for part in mine), len(mine)]))
        if self.rank:
            if mine:
                dist.send(torch.cat([_lengths(mine), *mine]), 0, group=self._group)
            return
        assert service is not None, "rank 0 has the service"
        received: list[Losses] = []
        for rank, (size, parts) in enumerate(counts.tolist()):
            if parts:
                whole = torch.empty(size + 8 * parts, dtype=torch.uint8)
                dist.recv(whole, rank, group=self._group)
                received += [self._losses(part) for part in _split(whole, parts)]
        for message in sorted(received, key=lambda message: message.batch_id):
            service.outlet.pass_on(message)

    def next(self, service: Service | None) -> tuple[Batch | None, float]:
        """This rank's next batch (None at the end), and what its mean counts for beside those of the others.

        With instance weights w the mean over all ranks' instances by weight is what DDP makes of the ranks' means, each
        multiplied by R times the rank's share of all weight. Raises RuntimeError, on all ranks, when something failed.
        """
        self.collect(service)
        if service is None:
            message, share = self._share(BATCH, None)
        else:
            try:
                batches = self._take(service)
            except Exception as error:
                self.fail(error)
                raise
            weights = np.array([float(batch.weights.sum()) for batch in batches])
            message, share = self._share(BATCH if batches else END, batches, service, weights)
        if isinstance(message, Stop):
            raise RuntimeError(message.reason)
        assert message is None or isinstance(message, Batch), "ranks are dealt batches"
        return message, share

    def release(self, service: Service | None, batch: Batch) -> None:
        """Nothing to give back: the ranks' batches are copies."""

    def outlet(self, service: Service | None) -> LossOutlet | None:
        """Where this rank's reports go; None where nobody takes them."""
        if self.rank:
            return self._kept
        return service.outlet if service is not None and service.running else None

    def _take(self, service: Service) -> list[Batch]:
        """One batch for each rank, or none at the end."""
        found: list[Batch] = []
        for _ in range(self.count):
            batch = service.next()
            if batch is None:
                return []
            # Copied: what is sent must not change, and a slot is needed for the next one.
            found.append(batch.model_copy(update={"arrays": {k: np.array(v) for k, v in batch.arrays.items()}}))
            service.release(batch)
        return found

    def _share(
        self,
        what: int,
        messages: Sequence[Message] | None,
        service: Service | None = None,
        weights: Any = None,
    ) -> tuple[Message | None, float]:
        """Gives each rank its one of rank 0's `messages` (None on the other ranks)."""
        packed = [self._pack(message) for message in messages or ()]
        shares = torch.ones(self.count, dtype=torch.float64)
        if weights is not None and len(weights):
            shares = torch.from_numpy(weights / weights.sum() * self.count)
        head = torch.zeros(2 + self.count, dtype=torch.int64)
        if self.rank == 0:
            head[0], head[1] = what, service.account.trained if service is not None else 0
            head[2 : 2 + len(packed)] = torch.tensor([len(part) for part in packed], dtype=torch.int64)
        dist.broadcast(head, 0, group=self._group)
        dist.broadcast(shares, 0, group=self._group)
        what, self.trained, lengths = int(head[0]), int(head[1]), head[2:].tolist()
        if what == END:
            return None, 1.0
        share = float(shares[self.rank])
        if self.rank:
            part = torch.empty(lengths[self.rank], dtype=torch.uint8)
            dist.recv(part, 0, group=self._group)
            return self._unpack(part), share
        sends = [dist.isend(part, rank, group=self._group) for rank, part in enumerate(packed) if rank]
        for send in sends:
            if send is not None:
                send.wait()
        assert messages is not None, "rank 0 has the messages"
        return messages[0], share

    def _gathered(self, mine: Tensor) -> Tensor:
        everyone = [torch.zeros_like(mine) for _ in range(self.count)]
        dist.all_gather(everyone, mine, group=self._group)
        return torch.stack(everyone)

    def close(self) -> None:
        """Gives up the group of our own."""
        group, self._group = self._group, None
        # Now: threads of a group that is left to the interpreter's end abort the process when they want its lock.
        if group is not None and dist.is_initialized():
            dist.destroy_process_group(group)

    # -- messages as bytes

    def _pack(self, message: Message) -> Tensor:
        frames = [np.frombuffer(frame, np.uint8) for frame in self._codec.encode(message)]
        sizes = np.array([len(frames), *(len(frame) for frame in frames)], np.int64)
        return torch.from_numpy(np.concatenate([sizes.view(np.uint8), *frames]))

    def _unpack(self, part: Tensor) -> Message:
        content = part.numpy()
        count = int(content[:8].view(np.int64)[0])
        sizes = content[8 : 8 + 8 * count].copy().view(np.int64).tolist()
        frames, at = [], 8 + 8 * count
        for size in sizes:
            frames.append(content[at : at + size].copy().data)
            at += size
        return self._codec.decode(frames)

    def _losses(self, part: Tensor) -> Losses:
        message = self._unpack(part)
        assert isinstance(message, Losses), "ranks send losses to rank 0"
        return message


def _lengths(parts: Sequence[Tensor]) -> Tensor:
    return torch.tensor([len(part) for part in parts], dtype=torch.int64).view(torch.uint8)


def _split(whole: Tensor, count: int) -> list[Tensor]:
    lengths = whole[: 8 * count].clone().view(torch.int64).tolist()
    return list(torch.split(whole[8 * count :], lengths))
