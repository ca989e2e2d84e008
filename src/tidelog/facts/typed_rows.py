"""Checks of facts on their way in against the types that their columns are declared with.

Most columns are of one kind, which the kinds of their terms tell all at once. Only what may not fit becomes values,
each of them once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tidelog.errors import DataError
from tidelog.language.records.types import Declared, fits, is_typed, misfit
from tidelog.language.syntax import Signature
from tidelog.machine import term_kinds as K
from tidelog.store.relation_parts import Cells
from tidelog.store.term_table import Ids, TermTable

# The kinds of terms that surely fit a type.
_FITTING: Mapping[str, tuple[int, ...]] = {
    "string": (K.STRING,),
    "int": (K.INTEGER,),
    "float": (K.FLOAT,),
    "number": (K.INTEGER, K.FLOAT),
    "bool": (K.BOOLEAN,),
    "iri": (K.IRI,),
}


def check_facts(
    facts: Mapping[str, Cells], declared: Declared, table: TermTable, display: Callable[[str], str]
) -> None:
    """Refuse facts that do not fit their columns: the message says which row and which column it is."""
    for predicate, rows in facts.items():
        signature = declared.get(predicate)
        if signature is not None and len(rows) and is_typed(signature):
            name = display(predicate)
            check_rows_of(rows, signature, declared, table, lambda row, name=name: f"`{name}`, row {row + 1}")  # type: ignore[misc]


def check_rows_of(
    rows: Cells, signature: Signature, declared: Declared, table: TermTable, place: Callable[[int], str]
) -> None:
    """The same for the rows of one predicate; `place` says where a row is, which counts from 0."""
    for number, column in enumerate(signature.columns):
        cells = np.ascontiguousarray(rows[:, number])
        for term in _doubtful(cells, column.type, table):
            value = table.decode(int(term))
            if not fits(value, column.type, declared):
                first = int(np.argmax(cells == term))
                raise DataError(f"{place(first)}, column `{column.name}`: {misfit(value, column.type)}")


def _doubtful(cells: Ids, type_: str, table: TermTable) -> Ids:
    """The terms of a column that may not fit a type, each once."""
    if type_ == "any":
        return cells[:0]
    doubtful = cells[~np.isin(table.kinds[cells], _FITTING.get(type_, ()))]
    # In the order of the rows, so that the first row that does not fit is told of.
    return doubtful[np.sort(np.unique(doubtful, return_index=True)[1])]
