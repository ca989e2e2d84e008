"""The names that an engine's facts and rules use, for the check of prefixes that are declared late."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from tidelog.engine.engine import Engine
from tidelog.program.catalogue import NamesInUse, name_of


def names_in_use(engine: Engine) -> NamesInUse:
    """All names that the engine holds."""
    with_facts = (name for name, relation in engine.store.named().items() if len(relation))
    predicates = (*engine.graph.predicates, *with_facts)
    return NamesInUse(predicates, engine.graph.rules.values(), partial(_names_in_facts, engine))


def _names_in_facts(engine: Engine, start: str) -> Iterator[str]:
    """The names of constants that begin so and that facts hold now: the dictionary may hold others, too."""
    terms = engine.store.terms
    candidates = terms.table.names_from(start, len(terms))
    if not candidates.size:
        return
    for relation in engine.store.named().values():
        if relation.closure is None:  # the pairs of a closure follow from another relation, its base
            rows = relation.rows()
            for term in rows[np.isin(rows, candidates)]:
                yield name_of(terms.table.decode(int(term)))
