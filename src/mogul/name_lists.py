"""Names as one argument of a command line: separated by commas, in double quotes where they hold one themselves."""

import csv
import io
from collections.abc import Sequence

from mogul.errors import ConfigError


def listed(text: str, option: str) -> list[str]:
    """Names between commas; a name with a comma goes into double quotes.

    >>> listed('a, "b,c"', "--targets")
    ['a', 'b,c']
    """
    parts = [part.strip() for part in next(csv.reader([text], skipinitialspace=True), [])]
    if not parts or "" in parts:
        raise ConfigError(f"{option} must be names separated by commas; got {text!r}. Try {option} a,b.")
    return parts


def as_list(names: Sequence[str]) -> str:
    """The argument that `listed` makes these names of.

    >>> as_list(["a", "b,c"])
    'a,"b,c"'
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()
