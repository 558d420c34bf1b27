"""Names of columns in a line of text."""

from collections.abc import Sequence

from mogul.name_lists import as_list

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
