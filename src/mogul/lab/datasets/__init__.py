"""Data sets that mogul knows by name, recorded and simulated."""
