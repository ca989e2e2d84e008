"""Which cells of a block of CSV are quoted, for all cells at once: Arrow reads quoted cells, but does not say which.

The parity of the number of quotes from the start of the block tells whether a byte lies inside quotes. Separators and
line ends outside quotes bound the cells. The parity is right only where every quote opens, closes or doubles; a block
in which a quote does anything else is left to a slower reader.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_QUOTE, _LINE_END, _RETURN = b'"\n\r'


Counts = npt.NDArray[np.int32]


class QuoteLayout(NamedTuple):
    """Whether the cell in each row and column of a block is quoted, and where the last complete row ends."""

    quoted: npt.NDArray[np.bool_]
    end: int


def quote_layout(block: bytes, separator: str) -> QuoteLayout | None:
    """The quotes of a block; None where they cannot be told this way, or there is no complete row."""
    data = np.frombuffer(block, np.uint8)
    is_quote = data == _QUOTE
    quotes = np.cumsum(is_quote, dtype=np.int32)
    outside = quotes & 1 == 0
    bounds = np.flatnonzero(((data == ord(separator)) | (data == _LINE_END)) & outside)
    complete = np.flatnonzero(data[bounds] == _LINE_END)
    if not complete.size:
        return None
    bounds = bounds[: complete[-1] + 1]
    ends_row = data[bounds] == _LINE_END
    starts = np.concatenate([[0], bounds[:-1] + 1])
    # A carriage return before the line end belongs to the line end.
    ends = bounds - ((data[bounds - 1] == _RETURN) & ends_row & (bounds > starts))
    quoted = is_quote[starts]
    loose = np.cumsum(outside & ~is_quote, dtype=np.int32)
    if _within(quotes, starts, ends)[~quoted].any() or _within(loose, starts, ends)[quoted].any():
        return None  # a quote inside an unquoted cell, or text around a quoted one
    blank = (starts == ends) & ends_row & np.concatenate([[True], ends_row[:-1]])
    matrix = _matrix(quoted[~blank], ends_row[~blank])
    return None if matrix is None else QuoteLayout(matrix, int(bounds[-1]) + 1)


def _within(counted: Counts, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> Counts:
    """How many of the counted bytes lie in each cell."""
    before = np.concatenate([[0], counted[starts[1:] - 1]])
    return np.where(ends > starts, counted[ends - 1] - before, 0)


def _matrix(quoted: npt.NDArray[np.bool_], ends_row: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_] | None:
    """The cells as rows and columns; None where the rows differ in length."""
    if not quoted.size:
        return np.zeros((0, 0), np.bool_)
    arity = int(np.argmax(ends_row)) + 1
    if quoted.size % arity or not np.array_equal(np.flatnonzero(ends_row), np.arange(arity - 1, quoted.size, arity)):
        return None
    return quoted.reshape(-1, arity)
