"""Growing arrays, and long work in pieces.

`np.resize` would fill the new part by repeating the old one, which for large arrays costs more than the work that they
grow for. Here the new part is left undefined, and the system gives memory only for what is used of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from tidelog.machine import array_memory as rooms
from tidelog.machine.ownership import OWNED

T = TypeVar("T", bound=np.generic)

PIECE = 1 << 13  # as many records, slots or rows as are processed in some tenths of a millisecond, in any order

Pause = Callable[[], None]
"""Called between two pieces of long work that cannot be left half done: may take new work in, but must neither change
what the pieces are about nor raise."""


def no_pause() -> None:
    """Nobody waits."""


def pieces(count: int, pause: Pause) -> Iterator[tuple[int, int]]:
    """The start and end of each piece; at least one."""
    yield 0, min(PIECE, count)
    for first in range(PIECE, count, PIECE):
        pause()
        yield first, min(first + PIECE, count)


def stretch(array: npt.NDArray[T], shape: int | tuple[int, ...]) -> None:
    """Lengthen an array that owns its memory; the system moves pages, not bytes. Its address changes."""
    OWNED.release(array)
    array.resize(shape, refcheck=False)


def grown(
    array: npt.NDArray[T],
    length: int,
    used: int | None = None,
    pause: Pause = no_pause,
    spare: rooms.Spare | None = None,
) -> npt.NDArray[T]:
    """An array of `length` elements or rows that replaces another: it begins with the old ones, or with those that are
    used, and is in the same memory if there is room.
    """
    in_place = rooms.lengthened(array, length)
    if in_place is not None:
        return in_place
    longer = rooms.empty((length, *array.shape[1:]), array.dtype, spare, grows=True)
    for first, last in pieces(len(array) if used is None else used, pause):
        longer[first:last] = array[first:last]
    return longer
