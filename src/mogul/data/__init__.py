"""Data: checked, standardised, in batches."""

from mogul.data.dataset import Batch, Dataset, Scaling, Standardiser

__all__ = ["Batch", "Dataset", "Scaling", "Standardiser"]
