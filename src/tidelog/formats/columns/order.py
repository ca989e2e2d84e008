"""One order of constants for all output: booleans, numbers by value, strings, IRIs, literals, records.

Of an integer and a float of the same value the integer comes first; NaN comes before all other numbers. `column_order`
brings whole columns into the same order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from tidelog.values import IRI, Record, Row, Value

BOOLEANS, NUMBERS, STRINGS, IRIS, LITERALS, RECORDS = range(6)


def sort_key(value: Value) -> tuple[int, Any, bool]:
    """A key that orders constants of all kinds."""
    if isinstance(value, bool):
        return (BOOLEANS, value, False)
    if isinstance(value, int):
        return (NUMBERS, value, False)
    if isinstance(value, float):
        return (NUMBERS, -math.inf if math.isnan(value) else value, not math.isnan(value))
    if isinstance(value, Record):
        return (RECORDS, value, False)
    return (STRINGS if isinstance(value, str) else IRIS if isinstance(value, IRI) else LITERALS, value, False)


def sorted_rows(rows: Iterable[Row]) -> list[Row]:
    """Rows in order, column by column."""
    return sorted(rows, key=lambda row: [sort_key(value) for value in row])
