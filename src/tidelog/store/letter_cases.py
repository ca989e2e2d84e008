"""The upper and the lower case of the letters beyond ASCII that have two bytes, as Python has them, for kernels.

Letters are left to Python whose other case is three letters, or depends on those around them (`Σ`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

from tidelog.joins.functions.characters import IN_TABLE, SECOND, UNKNOWN

CONTEXTUAL = "Σ"  # in lower case, it depends on whether a word ends there


@cache
def letter_cases() -> npt.NDArray[np.int32]:
    """The upper case of each character, and then the lower case of each."""
    return np.array([_other(point, case) for case in (str.upper, str.lower) for point in range(IN_TABLE)], np.int32)


def _other(point: int, case: Callable[[str], str]) -> int:
    character = chr(point)
    other = case(character)
    if len(other) > 2 or (character == CONTEXTUAL and case is str.lower):
        return UNKNOWN
    return ord(other[0]) | (ord(other[1]) << SECOND if len(other) == 2 else 0)
