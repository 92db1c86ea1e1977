"""Data: data sets, batches, and real data that needs no network."""

from ..tensor_api.help import missing_names_of as _missing_names_of
from .bundled import load_digits, load_text
from .collate import default_collate
from .dataset import (
    ArrayDataset,
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
    train_test_split,
)
from .loader import DataLoader, batches
from .sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from .workers import WorkerInfo, get_worker_info

__all__ = [
    "ArrayDataset", "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset",
    "IterableDataset", "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset",
    "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "WorkerInfo", "batches",
    "default_collate", "get_worker_info", "load_digits", "load_text", "random_split",
    "train_test_split",
]  # fmt: skip

__getattr__ = _missing_names_of(__name__)
