"""Models beside least squares and the mean, on rows that none of them was trained on."""
