"""What training maximised, in words."""

_WORDS = {"elbo": "ELBO", "balanced": "ELBO (balanced)", "predictive": "predictive objective"}


def objective_words(name: str) -> str:
    """The words for an objective of `mogul.objective`.

    >>> objective_words("elbo")
    'ELBO'
    """
    return _WORDS.get(name, name)
