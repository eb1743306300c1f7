"""The digits: 1,797 handwritten ones, 8 by 8 pixels, that come inside scikit-learn's package."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SIDE = 8
CLASSES = 10
TEST_SHARE = 0.2
SPLIT_SEED = 0


@dataclass(frozen=True)
class Digits:
    """A training and a test set.

    Attributes
    ----------
    train_x, test_x : array of float32, shape (n, 64)
        Standardised pixels: mean 0 and deviation 1 over the training set.
    train_y, test_y : array of int64, shape (n,)
        The digits shown.
    test_images : array of float32, shape (n, 8, 8)
        The pixels of the test set as they were scanned, from 0 (paper) to 16 (ink).
    """

    train_x: NDArray[np.float32]
    train_y: NDArray[np.int64]
    test_x: NDArray[np.float32]
    test_y: NDArray[np.int64]
    test_images: NDArray[np.float32]


def read_digits() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Read pixels, shape (1797, 64), and labels, shape (1797,).

    Importing ``sklearn.datasets`` takes longer than the training does, so the file is read where the package
    keeps it; where it is not found, scikit-learn is asked.
    """
    spec = importlib.util.find_spec("sklearn")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder, "datasets", "data", "digits.csv.gz")
        if path.is_file():
            table = np.loadtxt(path, delimiter=",", dtype=np.float32)
            return table[:, :-1], table[:, -1].astype(np.int64)
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return pixels.astype(np.float32), labels.astype(np.int64)


def load() -> Digits:
    """Split the digits into training and test set, the same way every time, and standardise them.

    The split keeps every digit's share: of each class, the same fraction goes to the test set.
    """
    pixels, labels = read_digits()
    rng = np.random.default_rng(SPLIT_SEED)
    test = np.zeros(len(labels), bool)
    for digit in range(CLASSES):
        members = rng.permutation(np.flatnonzero(labels == digit))
        test[members[: round(TEST_SHARE * len(members))]] = True
    mean, deviation = pixels[~test].mean(0), pixels[~test].std(0)
    # Pixels in the margin are blank in every image: they have no deviation to divide by.
    scaled = (pixels - mean) / np.where(deviation > 0, deviation, np.float32(1))
    return Digits(
        scaled[~test], labels[~test], scaled[test], labels[test], pixels[test].reshape(-1, SIDE, SIDE)
    )
