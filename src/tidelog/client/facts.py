"""The facts of a predicate of a server: a set, as a knowledge base that is here has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tidelog.client import exchange
from tidelog.client.exchange import PAGE, Call, FactsPage
from tidelog.client.tables import encoded
from tidelog.engine.update.rows import Rows
from tidelog.errors import ArityError, ServerError, UnknownPredicateWarning, warn
from tidelog.facts.results import Encoded, FactSet, FactTable, row_identity
from tidelog.store.relation_parts import Cells
from tidelog.values import Row


def _of_copies(name: str) -> Any:
    """An operation of sets on copies that are here: Python's own would ask the server about row after row."""

    def operation(facts: RemoteFacts, other: Any) -> Any:
        return getattr(facts.copied(), name)(other.copied() if isinstance(other, RemoteFacts) else other)

    operation.__name__ = name
    return operation


class RemoteFacts(FactTable):
    """The facts of a predicate of a server, read page by page whenever somebody looks."""

    def __init__(self, send: Callable[[Call[Any]], Any], predicate: str, explicit: bool) -> None:
        self._send = send
        self._predicate = predicate
        self._explicit = explicit

    def copied(self) -> FactSet:
        """The facts as they are now."""
        cells, terms = self._encoded()
        return FactSet(terms, Rows.of(cells), self._names(cells))

    def _page(self, cursor: str | None, limit: int = PAGE) -> FactsPage:
        try:
            page: FactsPage = self._send(exchange.facts(self._predicate, self._explicit, cursor, limit))
        except ServerError as error:
            if not exchange.is_unknown(error):
                raise
            warn(str(error), UnknownPredicateWarning)  # as of one that is here
            return FactsPage(0, [], None, 0, 0)
        return page

    def _pages(self, limit: int = PAGE) -> Iterator[FactsPage]:
        page = self._page(None, limit)
        yield page
        while page.cursor is not None:
            page = self._page(page.cursor, limit)
            yield page

    def _encoded(self, most: int | None = None) -> Encoded:
        width, rows = 0, list[Row]()
        for page in self._pages(PAGE if most is None else min(PAGE, max(most, 1))):
            width = page.arity
            rows += page.rows
            if most is not None and len(rows) >= most:
                break
        return encoded(rows[:most], width)

    def _names(self, cells: Cells) -> Sequence[str]:
        listed = self._send(exchange.get("/predicates"))["predicates"]
        named = (item["columns"] for item in listed if item["name"] == self._predicate)
        return next(named, ()) or super()._names(cells)

    def _keys(self) -> frozenset[object]:
        return frozenset(map(row_identity, self))

    def __iter__(self) -> Iterator[Row]:
        return (row for page in self._pages() for row in page.rows)

    def __len__(self) -> int:
        return self._page(None, 1).total

    def __contains__(self, row: object) -> bool:
        if not isinstance(row, tuple | list):
            return False
        if self._explicit:
            return row_identity(row) in self._keys()
        try:
            return bool(self._send(exchange.holds((self._predicate, *row))))
        except ArityError:  # No fact is as wide as that.
            return False

    __and__ = _of_copies("__and__")
    __or__ = _of_copies("__or__")
    __sub__ = _of_copies("__sub__")
    __xor__ = _of_copies("__xor__")
    __rand__ = _of_copies("__rand__")
    __ror__ = _of_copies("__ror__")
    __rsub__ = _of_copies("__rsub__")
    __rxor__ = _of_copies("__rxor__")
    __le__ = _of_copies("__le__")
    __lt__ = _of_copies("__lt__")
    __ge__ = _of_copies("__ge__")
    __gt__ = _of_copies("__gt__")
    isdisjoint = _of_copies("isdisjoint")
