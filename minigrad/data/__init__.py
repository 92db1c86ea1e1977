"""Data: data sets, batches, and real data that needs no network."""

from .dataset import ArrayDataset, Dataset, train_test_split
from .digits import load_digits
from .loader import DataLoader, batches

__all__ = [
    "ArrayDataset", "DataLoader", "Dataset", "batches", "load_digits", "train_test_split",
]  # fmt: skip
