"""Longer arrays with the same beginning.

`np.resize` would write the new part too, by repeating the old one: for large arrays that costs more than the work that
they grow for. Here the new part is left as it comes, and the system gives memory only for what is used of it.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T", bound=np.generic)


def grown(array: npt.NDArray[T], length: int, used: int | None = None) -> npt.NDArray[T]:
    """A copy of an array with room for `length` elements, or rows; of the old ones, all or those that are used."""
    longer = np.empty((length, *array.shape[1:]), array.dtype)
    kept = len(array) if used is None else used
    longer[:kept] = array[:kept]
    return longer
