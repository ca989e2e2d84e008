"""The net of several changes: what appeared and then vanished is in neither half."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from tidelog.engine.update.rows import Rows as ChangedRows
from tidelog.facts.encoding import encode_rows
from tidelog.facts.results import Change, FactSet
from tidelog.store.terms import Terms

Rows = dict[tuple[int, ...], bool]


def net_change(terms: Terms, changes: Sequence[Change]) -> Change:
    """One change for a sequence of them; work and errors add up. The caller has the lock of the knowledge base."""
    if len(changes) == 1:
        return changes[0]
    net: dict[str, Rows] = {}
    arities: dict[str, int] = {}
    work: Counter[str] = Counter()
    for change in changes:
        for facts, appeared in ((change.removed, False), (change.added, True)):
            _fold(terms, net, arities, facts, appeared)
        work.update(change.work)
    halves: dict[bool, dict[str, FactSet]] = {True: {}, False: {}}
    for name, rows in net.items():
        for appeared, half in halves.items():
            chosen = [row for row, sign in rows.items() if sign is appeared]
            if chosen:
                cells = np.array(chosen, np.int32).reshape(len(chosen), arities[name])
                half[name] = FactSet(terms.table, ChangedRows.of(cells))
    return Change(halves[True], halves[False], dict(work), sum(change.errors for change in changes))


def _fold(
    terms: Terms, net: dict[str, Rows], arities: dict[str, int], facts: Mapping[str, FactSet], appeared: bool
) -> None:
    for name, rows in facts.items():
        cells = encode_rows(terms, name, rows)  # The numbers may stand for other terms by now.
        if cells is None:
            continue
        arities[name] = cells.shape[1]
        known = net.setdefault(name, {})
        for row in map(tuple, cells.tolist()):
            # A fact appears and vanishes in turn: an opposite sign cancels.
            if known.pop(row, appeared) is appeared:
                known[row] = appeared
