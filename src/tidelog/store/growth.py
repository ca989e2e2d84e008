"""Longer arrays with the same beginning.

`np.resize` would write the new part too, by repeating the old one: for large arrays that costs more than the work that
they grow for. Here the new part is left as it comes, and the system gives memory only for what is used of it.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T", bound=np.generic)


def grown(array: npt.NDArray[T], length: int) -> npt.NDArray[T]:
    """A copy of an array with room for `length` elements, or rows."""
    longer = np.empty((length, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer
