"""Files: written atomically, sealed by a digest, settings as plain JSON. Knows nothing of fitted models."""
