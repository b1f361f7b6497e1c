"""Text classification: one label and one text a line. Texts become token ids."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from batcher.datasets.files import Classes, Strings, found, lines
from batcher.plugin import Data
from proto.errors import ConfigError
from proto.types import Array, Int64s

PADDING, UNKNOWN = 0, 1
"""Token ids that are no word: what fills up a shorter text, and any word that is not in the vocabulary."""
WORD = re.compile(r"\w+|[^\w\s]")

Labelled = tuple[list[str], list[str]]
"""Labels and texts of a file."""


def text(
    root: str,
    train: str,
    test: str = "",
    validation: str = "",
    separator: str = "\t",
    vocabulary: int = 20_000,
    max_length: int = 512,
    encoding: str = "utf-8",
) -> Data:
    """Token ids int64 [L], L at most `max_length`, from files in the folder `root`.

    The files may be packed (.gz, .bz2, .xz). A line is a label, the `separator`, and a text. Tokens are words and
    single punctuation marks in lower case. The vocabulary is the `vocabulary` - 2 most frequent tokens of the training
    file (ties: in the order of their letters), numbered from 2 on: 0 is padding, 1 is any other token.
    """
    return _data(root, (train, validation, test), separator, False, vocabulary, max_length, encoding)


def trec(
    root: str,
    train: str = "train_5500.label",
    test: str = "TREC_10.label",
    validation: str = "",
    fine: bool = False,
    vocabulary: int = 20_000,
    max_length: int = 512,
    encoding: str = "utf-8",
) -> Data:
    """As `text`, of lines `COARSE:fine question` (Li and Roth, *Learning Question Classifiers*, 2002).

    The class is COARSE, one of 6, or with `fine` all of `COARSE:fine`, one of 50.
    """
    return _data(root, (train, validation, test), " ", not fine, vocabulary, max_length, encoding)


def _data(
    root: str, files: Sequence[str], separator: str, coarse: bool, vocabulary: int, max_length: int, encoding: str
) -> Data:
    if vocabulary < 3:
        raise ConfigError("data.args.vocabulary", vocabulary, "allowed: 3 and more (padding, unknown, one word)")
    if max_length < 1:
        raise ConfigError("data.args.max_length", max_length, "allowed: 1 and more")
    named = dict(zip(("train", "validation", "test"), files, strict=True))
    paths = {key: found(root, f"data.args.{key}", name) for key, name in named.items() if name}
    read = {key: _read(path, separator, coarse, encoding) for key, path in paths.items()}
    labels, texts = read["train"]
    classes, words = Classes(labels), Vocabulary(texts, vocabulary)

    def split(key: str) -> TokenSplit | None:
        if key not in read:
            return None
        labels, texts = read[key]
        return TokenSplit(texts, classes.numbers(labels, paths[key].name), words, max_length)

    learned = split("train")
    assert learned is not None
    return Data(learned, split("test"), split("validation"), class_names=classes.names, vocabulary=len(words))


def _read(path: Path, separator: str, coarse: bool, encoding: str) -> Labelled:
    labels, texts = [], []
    for number, line in lines(path, encoding):
        label, found_it, content = line.partition(separator)
        if not found_it or not label or not content.strip():
            raise ValueError(f"{path.name}, line {number}: needed: a label, {separator!r}, and a text")
        labels.append(label.partition(":")[0] if coarse else label)
        texts.append(content)
    if not labels:
        raise ValueError(f"{path.name} has no line in it")
    return labels, texts


class Vocabulary:
    """Token ids of words."""

    def __init__(self, texts: Iterable[str], size: int) -> None:
        """The `size` - 2 most frequent words of `texts`, those equally frequent in the order of their letters."""
        counts = Counter(word for content in texts for word in words(content))
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        self._ids = {word: number for number, word in enumerate(ranked[: size - 2], UNKNOWN + 1)}

    def __len__(self) -> int:
        """How many token ids there are, padding and unknown among them."""
        return len(self._ids) + 2

    def ids(self, content: str, max_length: int) -> list[int]:
        """Token ids of the first words of `content`; never none."""
        return [self._ids.get(word, UNKNOWN) for word in words(content)[:max_length]] or [UNKNOWN]


def words(content: str) -> list[str]:
    """Words and single punctuation marks, in lower case."""
    return WORD.findall(content.lower())


class TokenSplit:
    """Token ids of texts, all in one array, with labels int64 [N]."""

    def __init__(self, texts: Sequence[str], labels: Array, vocabulary: Vocabulary, max_length: int) -> None:
        encoded = [np.asarray(vocabulary.ids(content, max_length), np.int32) for content in texts]
        self._tokens = np.concatenate(encoded)
        self._begins = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        self._texts, self.targets = Strings(texts), labels

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Int64s, Any]:
        begin, end = self._begins[index], self._begins[index + 1]
        return self._tokens[begin:end].astype(np.int64), self.targets[index].item()

    def labels(self, ids: Int64s) -> Array:
        return self.targets[ids]

    def lengths(self, ids: Int64s) -> Int64s:
        return self._begins[ids + 1] - self._begins[ids]

    def fill(self, ids: Int64s, out: Mapping[str, Array]) -> None:
        counts = self.lengths(ids)
        ends = np.cumsum(counts)
        places = np.arange(ends[-1] if len(ids) else 0) - np.repeat(ends - counts, counts)
        rows = np.repeat(np.arange(len(ids)), counts)
        out["inputs"][...] = PADDING
        out["inputs"][rows, places] = self._tokens[places + np.repeat(self._begins[ids], counts)]
        out["targets"][...] = self.targets[ids]

    def describe(self, index: int) -> str:
        found_text: str = self._texts[index]
        return found_text
