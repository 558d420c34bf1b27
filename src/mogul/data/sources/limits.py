"""What is asked of any file before its numbers are taken into memory."""

from collections.abc import Iterator
from contextlib import contextmanager

from mogul.errors import DataError, MogulError

# A file may claim any size; beyond this one, sparse Gaussian processes in memory are not the tool.
MAX_BYTES = 8 * 2**30


def require_room(num_bytes: int, source: str) -> None:
    """A size that a file claims must be one that can be meant."""
    if num_bytes > MAX_BYTES:
        raise DataError(
            f"A table must take at most {MAX_BYTES / 2**30:.0f} GiB in memory; {source} would take "
            f"{num_bytes / 2**30:,.1f}. Split it, or take fewer rows."
        )


@contextmanager
def readable_as(kind: str, source: str) -> Iterator[None]:
    """Whatever the parsers of others raise at a broken file becomes one error of ours."""
    try:
        yield
    except MogulError:
        raise
    except Exception as error:  # any of them, since parsers promise none
        reason = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
        raise DataError(
            f"The file must be readable as {kind}; {source} is not: {reason}. Is it complete, and of that kind?"
        ) from error
