"""What the Batcher tells the others of its data, and whether the splits go together."""

from collections.abc import Mapping
from typing import Any

from batcher.plugin import Data
from batcher.source import Source
from proto.control import DataSpec
from proto.errors import ConfigError
from proto.messages import Kind


def check_splits(sources: Mapping[Kind, Source], data: Data, name: str) -> int:
    """The number of classes over all splits, which each source is told with the size of the vocabulary.

    Raises ConfigError, naming the data set `name`, when the splits of `data` do not go together, or the moments of the
    channels do not go with the inputs.
    """
    train = sources["train"]
    for kind, source in sources.items():
        for array, what in (("inputs", "inputs"), ("targets", "labels")):
            here, there = source.like(array), train.like(array)
            if here != there:
                shapes = f"{list(here[0])} {here[1]}, those of its train split {list(there[0])} {there[1]}"
                raise ConfigError("data.name", name, f"{what} of its {kind} split have shape {shapes}")
    classes = max(source.classes(len(data.class_names)) for source in sources.values())
    for source in sources.values():
        source.labels_below, source.vocabulary = classes, data.vocabulary
    channels = train.shape[0] if train.shape else 1
    if {len(data.mean), len(data.std)} not in ({0}, {1}, {channels}):
        found = f"{len(data.mean)} means and {len(data.std)} deviations"
        raise ConfigError("data.name", name, f"it gives {found} for {channels} channels")
    return classes


def spec_of(sources: Mapping[Kind, Source], data: Data, **planned: Any) -> DataSpec:
    """The fields of `DataSpec` that follow from the data, beside those that are `planned`."""
    train = sources["train"]
    return DataSpec(
        train_size=train.size,
        validation_size=len(data.validation) if data.validation is not None else 0,
        test_size=len(data.test) if data.test is not None else 0,
        class_names=tuple(data.class_names),
        input_shape=train.shape,
        input_dtype=train.dtype.name,
        mean=tuple(data.mean),
        std=tuple(data.std),
        target_shape=train.one["targets"][0],
        target_dtype=train.one["targets"][1].name,
        beside={
            key: (dtype.name, shape) for key, (shape, dtype) in train.one.items() if key not in ("inputs", "targets")
        },
        vocabulary=data.vocabulary,
        structure=data.structure,
        **planned,
    )
