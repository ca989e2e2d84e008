"""The facts of a predicate, page by page: all of them, explicit ones, those that contain a text or a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tidelog.facts.reading import Place
from tidelog.facts.results import Encoded
from tidelog.live.knowledge import Knowledge
from tidelog.server import problems
from tidelog.server.commits.store import ServedStore
from tidelog.server.questions.pages import Page, cursor_of, parts_of
from tidelog.server.questions.queries import Queries, values_of
from tidelog.server.questions.reading import Reading
from tidelog.server.requests.bodies import Question
from tidelog.server.tokens import Caller

# Facts that one request looks through for a text.
MOST_SEARCHED = 200_000


class Facts:
    """Lists facts."""

    def __init__(self, store: ServedStore, queries: Queries, reading: Reading) -> None:
        self._store = store
        self._knowledge: Knowledge = store.knowledge
        self._queries = queries
        self._reading = reading

    def page(
        self,
        caller: Caller,
        name: str,
        limit: int,
        cursor: str | None,
        explicit: bool = False,
        containing: str = "",
        where: Mapping[int, Any] | None = None,
    ) -> Page:
        """A page of the facts of a predicate."""
        catalogue = self._knowledge.catalogue
        predicate = catalogue.resolve(name)
        self._reading.check(caller, {predicate})
        arity = catalogue.arities.get(predicate)
        if arity is None:
            raise problems.not_found(f"there is no predicate `{name}`")
        if where:
            return self._facts_where(caller, name, arity, limit, cursor, where, explicit)
        first, second = parts_of(cursor, (int, int)) if cursor else (0, 0)
        place: Place | None = (first, second)
        count = 0
        terms = self._knowledge.engine.store.terms.table
        version = self._knowledge.version
        left = max(limit, MOST_SEARCHED) if containing else limit
        cells: list[Any] = []
        while place is not None and left > 0 and count < limit:
            start = place
            size = min(left, limit if not containing else 4096)
            version, encoded, place = self._page(predicate, explicit, start, size)
            left -= max(len(encoded.cells), 1)
            if containing:
                found = [number for number, row in enumerate(encoded.rows()) if _contains(row, containing.casefold())]
                encoded = Encoded(encoded.cells[found], encoded.terms)
            terms = encoded.terms
            cells.append(encoded.cells)
            count += len(encoded.cells)
        joined = np.concatenate(cells) if cells else np.empty((0, arity), np.int32)
        following = None if place is None else cursor_of(*place)
        total = None if containing else self._count(predicate, explicit)
        names = tuple(f"c{column}" for column in range(arity))
        more = following is not None
        return Page(self._store.number(version), names, Encoded(joined, terms), following, total, more)

    def _page(self, predicate: str, explicit: bool, place: Place, size: int) -> tuple[int, Encoded, Place | None]:
        knowledge = self._knowledge
        return knowledge.lock.read(
            lambda: (knowledge.version, *knowledge.reader.page(predicate, explicit, place, size))
        )

    def _count(self, predicate: str, explicit: bool) -> int:
        return self._knowledge.lock.read(lambda: self._knowledge.reader.count(predicate, explicit))

    def _facts_where(
        self,
        caller: Caller,
        name: str,
        arity: int,
        limit: int,
        cursor: str | None,
        where: Mapping[int, Any],
        explicit: bool,
    ) -> Page:
        """Facts with given values in some columns: a query, which finds them by an index."""
        if explicit:
            raise problems.bad_request("`where` and `explicit` cannot be combined; ask for one of them")
        if not all(0 <= column < arity for column in where):
            raise problems.bad_request(f"`{name}` has {arity} columns, counted from 0")
        arguments = [f"$w{column}" if column in where else f"C{column}" for column in range(arity)]
        text = f"{name}({', '.join(arguments)})"
        values = {f"w{column}": value for column, value in where.items()}
        page = self._queries.query(caller, Question(text, values, cursor=cursor, whole=True), limit)
        return self._whole_rows(page, arity, where)

    def _whole_rows(self, page: Page, arity: int, where: Mapping[int, Any]) -> Page:
        """The rows of a query with its constants in their columns."""
        given = values_of({str(column): value for column, value in where.items()})
        knowledge = self._knowledge
        with knowledge.lock:
            terms = knowledge.engine.store.terms
            if page.rows.terms is not terms.table:
                raise problems.Problem(503, "busy", "Ask again", "the facts were rearranged meanwhile; ask again")
            cells = np.empty((len(page.rows.cells), arity), np.int32)
            free = [column for column in range(arity) if column not in where]
            cells[:, free] = page.rows.cells
            if len(cells):
                for column in where:
                    cells[:, column] = terms.encode_values([given[str(column)]])[0]
        return page._replace(rows=Encoded(cells, page.rows.terms), names=tuple(f"c{n}" for n in range(arity)))


def _contains(row: Any, text: str) -> bool:
    return any(text in str(value).casefold() for value in row)
