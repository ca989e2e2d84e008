"""Columns of facts in the order of constants that `order` gives, without a Python object for each cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.formats.batch import BOOL, FLOAT, INT, IRI_KIND, LITERAL, STR, Part, parts, values_of
from tidelog.formats.columns.order import BOOLEANS, IRIS, LITERALS, NUMBERS, STRINGS, sort_key

Ranks = npt.NDArray[Any]

_PRECEDENCE = {BOOL: BOOLEANS, INT: NUMBERS, FLOAT: NUMBERS, STR: STRINGS, IRI_KIND: IRIS, LITERAL: LITERALS}


def sorted_columns(columns: Sequence[pa.Array]) -> list[pa.Array]:
    """Columns with their rows in order."""
    if not columns or len(columns[0]) < 2:
        return list(columns)
    order = np.lexsort([_ranks(column) for column in reversed(columns)])
    return [column.take(pa.array(order)) for column in columns]


def _ranks(column: pa.Array) -> Ranks:
    """Numbers that order the cells of a column."""
    found = parts(column)
    if not _is_simple(found):
        keys = [sort_key(value) for value in values_of(column)]
        place = {key: number for number, key in enumerate(sorted(set(keys)))}
        return np.fromiter((place[key] for key in keys), np.int64, len(keys))
    if len(found) == 1:
        return _part_ranks(found[0])
    ranks = np.empty(len(column), np.int64)
    highest = 0
    for part in sorted(found, key=lambda part: _PRECEDENCE[part.kind]):
        _, dense = np.unique(_part_ranks(part), return_inverse=True)
        ranks[part.rows] = highest + dense
        highest += int(dense.max()) + 1
    return ranks


def _is_simple(found: Sequence[Part]) -> bool:
    """Whether each kind can be ordered separately: integers mix with floats, and Arrow orders NaN in its own way."""
    kinds = {part.kind for part in found}
    has_nan = any(part.kind == FLOAT and pc.any(pc.is_nan(part.values)).as_py() for part in found)
    return not (has_nan or LITERAL in kinds or {INT, FLOAT} <= kinds)


def _part_ranks(part: Part) -> Ranks:
    if part.kind in (STR, IRI_KIND):
        # Texts repeat: order the distinct ones. The order of UTF-8 is that of code points.
        encoded = part.values.dictionary_encode()
        return np.asarray(pc.rank(encoded.dictionary, tiebreaker="dense").take(encoded.indices))
    return np.asarray(part.values)
