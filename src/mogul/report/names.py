"""Names of columns in a line of text."""

from collections.abc import Sequence

_SHOWN = 8


def counted(names: Sequence[str]) -> str:
    """How many and which, the first few of many.

    >>> counted(["Cd", "Cu"])
    '2: Cd, Cu'
    """
    if not names:
        return ""
    shown = ", ".join(names[:_SHOWN])
    return f"{len(names)}: {shown}" + (", …" if len(names) > _SHOWN else "")
