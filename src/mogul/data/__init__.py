"""Data: checked, standardised, in batches."""

from mogul.data.dataset import Batch, Dataset, RowSource, Scaling, Share, Standardiser

__all__ = ["Batch", "Dataset", "RowSource", "Scaling", "Share", "Standardiser"]
