"""Data: checked, standardised, in batches."""

from mogul.data.batches import Batch
from mogul.data.dataset import Dataset, Scaling, Standardiser

__all__ = ["Batch", "Dataset", "Scaling", "Standardiser"]
