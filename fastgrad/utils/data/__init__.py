"""Data sets, and batches of them in order or at random, made by the process that asks for them or by others."""

from fastgrad.module_names import getattr_of as _getattr_of
from fastgrad.utils.data.collate import default_collate, default_convert
from fastgrad.utils.data.dataloader import DataLoader
from fastgrad.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from fastgrad.utils.data.info import get_worker_info
from fastgrad.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]

__getattr__ = _getattr_of(__name__, {"DistributedSampler": "distributed", "distributed": None})
