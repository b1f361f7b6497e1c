"""A data set that keeps a Python string for each instance, as many people's do."""

from typing import Any

import numpy as np


class Strings:
    def __init__(self, size: int) -> None:
        self.texts = [f"this is the text of instance {index}, one of {size}" for index in range(size)]
        self.targets = np.arange(size) % 2

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> Any:
        text = self.texts[index]
        return np.array([len(text), text.count("1")], np.float32), index % 2


def strings(size: int) -> Strings:
    return Strings(size)
