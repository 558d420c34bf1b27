"""Names and numbers in a line of text."""

from collections.abc import Sequence

from mogul.errors import as_list

_SHOWN = 8


def counted(names: Sequence[str]) -> str:
    """How many and which, the first few of many.

    >>> counted(["Cd", "Cu"])
    '2: Cd, Cu'
    >>> counted(["speed, m/s", "load"])
    '2: "speed, m/s", load'
    """
    if not names:
        return ""
    shown = ", ".join(as_list([name]) for name in names[:_SHOWN])
    return f"{len(names)}: {shown}" + (", …" if len(names) > _SHOWN else "")


def epochs_words(count: int) -> str:
    """How many there were.

    >>> epochs_words(1), epochs_words(2)
    ('1 epoch', '2 epochs')
    """
    return f"{count} epoch{'' if count == 1 else 's'}"
