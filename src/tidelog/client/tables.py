"""Rows that came from a server, as tables of term numbers: what can be done with facts and answers that are here can
then be done with them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidelog.facts.results import Encoded
from tidelog.machine import registers as M
from tidelog.store.terms import Terms
from tidelog.values import Row


def encoded(rows: Sequence[Row], width: int) -> Encoded:
    """Rows of so many values, in terms of their own."""
    terms = Terms(np.zeros(M.SIZE, np.int64), capacity=16)
    cells = np.empty((len(rows), width), np.int32)
    for number, column in enumerate(zip(*rows, strict=True)):
        cells[:, number] = terms.encode_values(column)
    return Encoded(cells, terms.table)
