"""Numbers as text, one cell at a time: those that do not fit in 64 bits are refused, not changed."""

from __future__ import annotations

import math

from tidelog.errors import DataError
from tidelog.language.literals import integer


def parse_float(text: str) -> float:
    """A float of 64 bits, `inf`, `-inf` or `nan`."""
    value = float(text)
    if math.isinf(value) and not text.endswith("inf"):
        raise DataError(f"the number {text[:60]} is too large for a float (64 bits); quote it to keep it as a string")
    return value


def parse_integer(text: str) -> int:
    """An integer of 64 bits."""
    try:
        return integer(text)
    except DataError as error:
        raise DataError(f"{error}; quote it to keep it as a string") from None
