"""Handwritten digits of scikit-learn (UCI ML hand-written digits, test part): real 8x8 images that need no download."""

import numpy as np

from batcher.datasets.arrays import ArraySplit
from batcher.plugin import Data

TEST_SIZE = 360


def digits() -> Data:
    """1,437 training and 360 test images [1, 8, 8] uint8 (0 to 255), 10 classes; the split is stratified and fixed."""
    # Imported here: scikit-learn takes most of a second, and other data sets do not need it.
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    images, labels = load_digits(return_X_y=True)
    # Stored as 0 to 16; spread over the range that uint8 images have everywhere else.
    pixels = np.round(images.reshape(-1, 1, 8, 8) * (255 / 16)).astype(np.uint8)
    train, test, train_labels, test_labels = train_test_split(
        pixels, labels, test_size=TEST_SIZE, random_state=0, stratify=labels
    )
    names = [str(digit) for digit in range(10)]
    return Data(
        ArraySplit(train, train_labels), ArraySplit(test, test_labels), class_names=names, mean=(0.31,), std=(0.38,)
    )
