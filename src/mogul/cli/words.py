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


def seconds_words(seconds: float) -> str:
    """A time in seconds; below ten, to a tenth.

    >>> seconds_words(0.42), seconds_words(12.3)
    ('0.4 s', '12 s')
    """
    return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
