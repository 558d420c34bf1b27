"""What was chosen between models and kinds of noise by held-out rows, and how each of them did."""

from dataclasses import asdict, dataclass

import pandas as pd

from mogul.models.parts import NoiseChoice


@dataclass(frozen=True)
class Candidate:
    """A model with a kind of noise: the log likelihood of a held-out row in its best epoch, in standardised units.

    `ll` is None where training failed, for the reason given, or ended before any epoch was watched.
    """

    model: str
    noise: NoiseChoice
    ll: float | None = None
    epochs: int = 0
    seconds: float = 0.0
    failure: str | None = None

    @property
    def pair(self) -> tuple[str, NoiseChoice]:
        """What tells it from the others."""
        return self.model, self.noise

    @property
    def words(self) -> str:
        """The same for people to read."""
        return f"{self.model} with {self.noise} noise"


@dataclass(frozen=True)
class Choice:
    """What was tried, in the order of trying, what was kept, and by how many held-out rows.

    Example:
        >>> tried = Candidate("mogp", "gp", 2.25), Candidate("mogp", "constant", 1.5)
        >>> choice = Choice(tried[0], tried, num_held_out=20)
        >>> choice.chosen.noise, choice.frame()["ll"].tolist()
        ('gp', [2.25, 1.5])
    """

    chosen: Candidate
    candidates: tuple[Candidate, ...]
    num_held_out: int

    def frame(self) -> pd.DataFrame:
        """One row per candidate."""
        return pd.DataFrame([asdict(candidate) for candidate in self.candidates])
