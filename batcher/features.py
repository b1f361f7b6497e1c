"""What the Assistant looks at: a short float vector per instance, derived once and kept."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from batcher.source import Source
from proto.halves import widened
from proto.types import Array, Bools, Float32s, Int64s

LARGEST = float(np.finfo(np.float16).max)
SAMPLE = 256
"""Instances from which the scale of the features is taken."""


def pool(inputs: Array, limit: int = 256) -> Float32s:
    """Inputs [n, ...] as float32 [n, D], D <= limit where averaging neighbours can reach it.

    Images ([n, H, W] or [n, C, H, W]) are averaged over squares, anything else is flattened and averaged over runs.
    """
    n = len(inputs)
    if inputs.ndim in (3, 4) and min(inputs.shape[-2:]) > 1:
        images = inputs.reshape(n, -1, *inputs.shape[-2:])
        _, channels, height, width = images.shape
        side = next(
            k
            for k in range(1, max(height, width) + 1)
            if channels * -(-height // k) * -(-width // k) <= limit or k == max(height, width)
        )
        if height % side or width % side:
            images = np.pad(images, [(0, 0), (0, 0), (0, -height % side), (0, -width % side)], mode="edge")
        # Added up strip by strip, which is several times faster than a mean over two short axes.
        rows = _added([images[:, :, k::side] for k in range(side)])
        squares = _added([rows[..., k::side] for k in range(side)])
        return (squares / np.float32(side**2)).reshape(n, -1)
    flat = inputs.reshape(n, -1).astype(np.float32)
    run = -(-flat.shape[1] // limit)
    flat = np.pad(flat, [(0, 0), (0, -flat.shape[1] % run)], mode="edge") if run > 1 else flat
    return np.ascontiguousarray(flat.reshape(n, -1, run).mean(axis=2, dtype=np.float32))


def _added(parts: Sequence[Array]) -> Float32s:
    total = np.ascontiguousarray(parts[0], np.float32)
    total = total.copy() if total is parts[0] else total
    for part in parts[1:]:
        np.add(total, part, out=total)
    return total


def hashed(tokens: Array | Sequence[Array], limit: int, mask: Array | None = None) -> Float32s:
    """Bags of words float32 [n, limit] of norm 1 from token ids: int [n, T], or n arrays of ids.

    Each id adds +1 or -1 to one of `limit` places, both told from a hash of it (Weinberger et al. 2009, "Feature
    Hashing for Large Scale Multitask Learning"). `mask` bool [n, T] says which ids count; without one all above 0 do,
    since 0 is padding.
    """
    n = len(tokens)
    if isinstance(tokens, np.ndarray) and tokens.dtype != object:
        rows, ids = np.repeat(np.arange(n), math.prod(tokens.shape[1:])), tokens.reshape(-1)
    else:
        parts = [np.asarray(part).reshape(-1) for part in tokens]
        rows, ids = np.repeat(np.arange(n), [len(part) for part in parts]), np.concatenate(parts)
    there = (ids > 0) if mask is None else mask.reshape(-1)
    rows, ids = rows[there], ids[there].astype(np.uint64)
    # splitmix64's finaliser (Steele et al. 2014): every bit of the id reaches every bit of the hash.
    ids = (ids ^ (ids >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    ids = (ids ^ (ids >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    ids ^= ids >> np.uint64(31)
    signs = 1 - 2 * (ids >> np.uint64(63)).astype(np.float64)
    places = rows * limit + (ids % np.uint64(limit)).astype(np.int64)
    bags = np.bincount(places, signs, minlength=n * limit).reshape(n, limit)
    norms = np.sqrt(np.square(bags).sum(axis=1, keepdims=True))
    return (bags / np.where(norms > 0, norms, 1)).astype(np.float32)


def derived(arrays: Mapping[str, Array], limit: int) -> Float32s:
    """Features float32 [n, D] of assembled instances.

    Integers of one dimension are token ids and become hashed bags of words; of instances that differ in length the
    mean over their positions is pooled; anything else is pooled.
    """
    inputs, mask = arrays["inputs"], arrays.get("mask")
    if inputs.dtype.kind == "i" and inputs.ndim == 2:
        return hashed(inputs, limit, mask)
    if mask is None:
        return pool(inputs, limit)
    # Padding is 0, so it adds nothing.
    sums = inputs.sum(axis=1, dtype=np.float32)
    return pool(sums / arrays["lengths"].astype(np.float32).reshape(-1, *[1] * (sums.ndim - 1)), limit)


def offered(features: Any, limit: int) -> Float32s:
    """What a split offers as features, pooled to `limit`: float [n, D], or token ids (see `hashed`)."""
    if not isinstance(features, np.ndarray) and all(np.ndim(part) == 1 for part in features):
        parts = [np.asarray(part) for part in features]
        if all(part.dtype.kind in "iu" for part in parts):
            return hashed(parts, limit)
    dense = np.asarray(features)
    tokens = dense.dtype.kind in "iu" and dense.dtype != np.uint8
    return hashed(dense, limit) if tokens else pool(dense.astype(np.float32, copy=False), limit)


class FeatureStore:
    """Features and class numbers of all instances of a source, kept from the first time they are seen.

    Features are scaled by one constant so that their mean squared norm is 1: the Assistant's learning rate then means
    the same for any data set. They are kept as float16 (2 D bytes an instance).
    """

    def __init__(self, source: Source, limit: int, seed: int) -> None:
        self.source, self.limit, self.dim = source, limit, 0
        sample = np.sort(np.random.default_rng(seed).choice(source.size, min(source.size, SAMPLE), replace=False))
        features = self._offered(sample)
        if features is None:
            good, arrays = source.take(sample)
            if not len(good):
                source.refuse(f"none of the {len(sample)} instances looked at can be read")
            features = derived(arrays, limit)
        self._measure(features)
        self._features = np.zeros((source.size, self.dim), np.float16)
        labels = source.labels(np.arange(source.size))
        self._labels = np.full(source.size, -1, np.int64) if labels is None else labels
        self._known = np.zeros(source.size, bool)
        self._seen_before = np.zeros(source.size, bool)

    def _measure(self, features: Float32s) -> None:
        """Takes dimension and scale from `features` of some instances."""
        self.dim = features.shape[1]
        squares = np.square(features, dtype=np.float64).sum(axis=1)
        norm = float(squares[np.isfinite(squares)].mean()) ** 0.5 if np.isfinite(squares).any() else 0.0
        self.scale = np.float32(1 / norm if norm > 0 else 1)

    def _scaled(self, features: Float32s) -> Array:
        """`features` as they are kept, float16."""
        halves: Array = np.clip(features * self.scale, -LARGEST, LARGEST).astype(np.float16)
        return halves

    def visit(self, ids: Int64s, arrays: Mapping[str, Array]) -> None:
        """Keeps what can be derived from the assembled instances `ids`."""
        new = ~self._known[ids]
        if new.any():
            features = self._offered(ids[new])
            if features is None:
                features = derived({name: array[new] for name, array in arrays.items()}, self.limit)
            self._keep(ids[new], features, arrays["targets"][new])

    def revisit(self, ids: Int64s) -> None:
        """The instances `ids` were seen in a life before this one: they are loaded when they are asked for."""
        self._seen_before[ids] = True

    def forget(self, position: int) -> None:
        """Nothing is forgotten: an instance comes again in each pass."""

    def get(self, ids: Int64s) -> tuple[Float32s, Int64s, Bools]:
        """Scaled features float32 [n, D], labels int64 [n] and whether they are known, bool [n], for `ids`.

        Where they are not known, because the instance must be decoded, has not been yet, and the source offers none,
        they are 0 and -1.
        """
        new = ids[~self._known[ids]]
        if len(new):
            features, labels = self._offered(new), self._labels[new]
            if features is not None and (not self.source.numbered or labels.min() >= 0):
                self._keep(new, features, labels)
            else:
                # Arrays in memory can be looked at before they are visited; items would have to be decoded.
                cheap = new[self._seen_before[new]] if self.source.by_item else new
                for start in range(0, len(cheap), SAMPLE):
                    self.visit(*self.source.take(cheap[start : start + SAMPLE]))
        return widened(self.halves(ids)), self._labels[ids], self._known[ids]

    def halves(self, ids: Int64s) -> Array:
        """Scaled features of `ids` as they are kept, float16 [n, D]; 0 where not known yet."""
        # The ids are ours: with "clip" numpy checks none of them, and is twice as fast.
        return np.take(self._features, ids, axis=0, mode="clip")

    def _offered(self, ids: Int64s) -> Float32s | None:
        """Features the source offers for `ids`, pooled to the limit; None when it offers none."""
        found = self.source.features(ids)
        if found is None:
            return None
        features = offered(found, self.limit)
        if features.shape != (len(ids), self.dim or features.shape[1]):
            what = f"{np.shape(found)} for {len(ids)} instances"
            self.source.refuse(f"its features(ids) are {what}; needed: [n, D], with the same D for all")
        return features

    def labels(self, ids: Int64s) -> Int64s:
        """Class numbers int64 [n] of `ids`; -1 where not known yet, or where labels are no class numbers."""
        return self._labels[ids]

    def _keep(self, ids: Int64s, features: Float32s, labels: Int64s) -> None:
        self._features[ids] = self._scaled(features)
        if self.source.numbered:
            self._labels[ids] = labels
        self._known[ids] = True
