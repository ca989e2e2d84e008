"""Reading the facts of an engine: by predicate, one by one, and by the names that they use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from tidelog.engine.engine import Engine
from tidelog.engine.queries import originals
from tidelog.engine.reclaiming import PassingTerms
from tidelog.engine.transaction.task import explicit_rows
from tidelog.errors import DataError
from tidelog.facts.equality import Copies, ShownClasses
from tidelog.facts.results import Encoded, FactTable, row_identity
from tidelog.language.names import is_hidden
from tidelog.language.written.windows import given_predicate
from tidelog.machine import flags as F
from tidelog.program.catalogue import Catalogue, NamesInUse, name_of
from tidelog.runtime.knowledge_lock import KnowledgeLock
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells
from tidelog.values import Row

Place = tuple[int, int]
"""Where a page of facts begins."""

# Records that are looked at together.
LOOKED_AT = 1 << 14


class Reader:
    """Reads facts of predicates, whose names are resolved. The caller has the lock of the knowledge base."""

    def __init__(self, engine: Engine, catalogue: Catalogue) -> None:
        self._engine = engine
        self._catalogue = catalogue
        self.classes = ShownClasses(engine)

    def predicates(self) -> list[str]:
        """Every predicate that has facts, that a rule mentions or that is declared, as it is displayed."""
        with_facts = (name for name, relation in self._engine.store.named().items() if len(relation))
        in_rules = map(given_predicate, self._engine.graph.predicates)
        return self._displayed({*with_facts, *in_rules, *self._catalogue.declared})

    def explicit_predicates(self) -> list[str]:
        """Every predicate that has explicit facts, as it is displayed."""
        return self._displayed({name for name in self._engine.store.named() if self.count(name, explicit=True)})

    def _displayed(self, names: set[str]) -> list[str]:
        return sorted(self._catalogue.display(name) for name in names if not is_hidden(name))

    def columns(self, predicate: str) -> tuple[str, ...]:
        """The names that a predicate's columns are declared with; none if they are not."""
        signature = self._catalogue.declared.get(predicate)
        return () if signature is None else tuple(column.name for column in signature.columns)

    def _relation(self, predicate: str, explicit: bool) -> Relation | None:
        return self._engine.explicit_relation(predicate) if explicit else self._engine.store.find(predicate)

    def _copies(self, predicate: str, explicit: bool) -> Copies | None:
        """What the rows of a predicate stand for under an equality; None where they stand for themselves."""
        relation, classes = self._relation(predicate, explicit), self.classes.of(predicate)
        if explicit or relation is None or classes is None or not len(classes.terms):
            return None
        return classes.copies(relation.rows())

    def rows(self, predicate: str, explicit: bool = False, most: int | None = None) -> Encoded:
        """The facts of a predicate, or the first of them."""
        relation, copies = self._relation(predicate, explicit), self._copies(predicate, explicit)
        if copies is not None:
            cells = copies.rows(0, most)
        elif relation is None:
            cells = np.empty((0, self._catalogue.arities.get(predicate, 0)), np.int32)
        elif most is not None and relation.closure is not None and not explicit:
            # A closure may have far more pairs than anybody wants to see.
            pairs = next(iter(relation.closure.pairs(most)), None)
            cells = np.empty((0, 2), np.int32) if pairs is None else np.stack(pairs, axis=1)
        else:
            cells = (explicit_rows(relation) if explicit else relation.rows())[:most]
        return Encoded(cells, self._engine.store.terms.table)

    def page(self, predicate: str, explicit: bool, place: Place, most: int) -> tuple[Encoded, Place | None]:
        """At most `most` facts of a predicate from a place on, which is (0, 0) at first, and the place to go on from.
        Between updates, pages that follow each other have every fact once. Not all facts are looked at for one page.
        """
        relation, terms = self._relation(predicate, explicit), self._engine.store.terms.table
        if relation is None:
            return Encoded(np.empty((0, self._catalogue.arities.get(predicate, 0)), np.int32), terms), None
        copies = self._copies(predicate, explicit)
        if copies is not None:
            last = min(place[0] + most, len(copies))
            return Encoded(copies.rows(place[0], last), terms), (last, 0) if last < len(copies) else None
        if relation.closure is not None and not explicit:
            pairs, following = relation.closure.page(place, most)
            return Encoded(np.stack(pairs, axis=1), terms), following if following[0] >= 0 else None
        found: list[Cells] = []
        flag = F.EXPLICIT if explicit else self._engine.store.shown
        first, count = place[0], relation.count
        while most > 0 and first < count:
            last = min(first + max(most, LOOKED_AT), count)
            facts = np.flatnonzero(relation.cells[first:last, relation.flags_column] & flag)
            if len(facts) > most:
                last = first + int(facts[most])
                facts = facts[:most]
            found.append(relation.cells[first + facts, : relation.arity])
            first, most = last, most - len(facts)
        cells = np.concatenate(found) if found else np.empty((0, relation.arity), np.int32)
        return Encoded(cells, terms), (first, 0) if first < count else None

    def count(self, predicate: str, explicit: bool = False) -> int:
        """How many facts a predicate has."""
        relation, copies = self._relation(predicate, explicit), self._copies(predicate, explicit)
        if copies is not None:
            return len(copies)
        if relation is None:
            return 0
        return relation.explicit_count if explicit else len(relation)

    def holds(self, predicate: str, row: Row, explicit: bool = False) -> bool:
        """Whether a predicate has a fact."""
        with self.terms_for_a_question():
            try:
                cells = self.cells_of(predicate, row)
            except DataError:
                return False
            if cells is None or self._engine.holds(predicate, cells, explicit):
                return cells is not None
            return not explicit and len(originals(self._engine, predicate, cells, 1)) > 0

    def count_all(self) -> int:
        """How many facts all predicates have."""
        equality, named = self._engine.graph.equality, self._engine.store.named()
        changed = [] if equality is None else [name for name in named if equality.applies_to(name)]
        more = sum(self.count(name) - len(named[name]) for name in changed)
        return self._engine.store.fact_count() + more

    def cells_of(self, predicate: str, row: Row) -> Cells | None:
        """The terms of a fact; None if the predicate is not known with that many arguments."""
        if self._catalogue.arities.get(predicate) != len(row):
            return None
        return self._engine.store.terms.encode_values(row) if row else np.empty(0, np.int32)

    def terms_for_a_question(self) -> PassingTerms:
        """A context for a question: the terms that it names or computes are needed for its answer only."""
        return PassingTerms(self._engine, for_a_question=True)


class Facts(FactTable):
    """The facts of a predicate as they are now: a view that follows the knowledge base.

    Examples:
        >>> kb = tidelog.KnowledgeBase("edge(a, b).")
        >>> edges = kb.facts("edge")
        >>> _ = kb.update(add={"edge": [("b", "c")]})
        >>> sorted(edges), edges.to_arrow().num_rows
        ([('a', 'b'), ('b', 'c')], 2)
    """

    __slots__ = ("__weakref__", "_explicit", "_lock", "_predicate", "_reader")

    def __init__(self, lock: KnowledgeLock, reader: Reader, predicate: str, explicit: bool) -> None:
        self._lock = lock
        self._reader = reader
        self._predicate = predicate
        self._explicit = explicit

    def _encoded(self, most: int | None = None) -> Encoded:
        return self._lock.read(lambda: self._reader.rows(self._predicate, self._explicit, most))

    def _names(self, cells: Cells) -> Sequence[str]:
        return self._reader.columns(self._predicate) or super()._names(cells)

    def _keys(self) -> frozenset[object]:
        return frozenset(map(row_identity, self))

    def __len__(self) -> int:
        return self._lock.read(lambda: self._reader.count(self._predicate, self._explicit))

    def __contains__(self, row: object) -> bool:
        if not isinstance(row, tuple | list):
            return False
        return self._lock.read(lambda: self._reader.holds(self._predicate, tuple(row), self._explicit))


def names_in_use(engine: Engine, declared: Iterable[str]) -> NamesInUse:
    """The names that facts and rules use, for the check of prefixes that are declared late."""
    with_facts = (name for name, relation in engine.store.named().items() if len(relation))
    predicates = (*engine.graph.predicates, *with_facts, *declared)
    return NamesInUse(predicates, engine.graph.rules.values(), partial(_names_in_facts, engine))


def _names_in_facts(engine: Engine, start: str) -> Iterator[str]:
    """The names of constants that begin so and that facts hold now: the dictionary may hold others, too."""
    terms = engine.store.terms
    candidates = terms.table.names_from(start, len(terms))
    if not candidates.size:
        return
    for name, relation in engine.store.named().items():
        # The pairs of a closure follow from another relation, its base. What subscriptions ask for is no fact.
        if relation.closure is None and not name.startswith("#asked"):
            rows = relation.rows()
            for term in rows[np.isin(rows, candidates)]:
                yield name_of(terms.table.decode(int(term)))
