"""Data sets, and batches of them in order or at random, in the process that asks for them."""

from fastgrad.module_names import getattr_of as _getattr_of
from fastgrad.utils.data.collate import default_collate, default_convert
from fastgrad.utils.data.dataloader import DataLoader
from fastgrad.utils.data.dataset import (
    ConcatDataset,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
    random_split,
)
from fastgrad.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
)

__all__ = [
    "BatchSampler",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "default_collate",
    "default_convert",
    "random_split",
]

__getattr__ = _getattr_of(__name__, {"DistributedSampler": "distributed", "distributed": None})
