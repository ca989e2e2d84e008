"""What a knowledge base gives back: sets of facts, answers of queries, changes. All of them hold columns of term
numbers.

Values become Python objects only when somebody looks at them; `to_arrow`, `to_pandas` and `to_polars` make no Python
objects where the columns allow it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol, Self

from tidelog.engine.update.failures import NO_FAILURES, Failures
from tidelog.engine.update.rows import Rows
from tidelog.errors import TidelogError
from tidelog.extras import needing
from tidelog.formats.bars import change_bars
from tidelog.formats.display import MOST_EXAMPLES, MOST_ROWS, html_table, more_text, rich_table, row_text
from tidelog.formats.files.jsonl import value_to_json
from tidelog.formats.files.updates import json_facts
from tidelog.formats.plain_data import PlainData
from tidelog.language.literals import render_value
from tidelog.store.relation_parts import Cells
from tidelog.store.term_table import TermTable
from tidelog.values import Row, Value, identity

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.explain.change_proof import ChangeProof
    from tidelog.papers.trace import Trace

MOST_IN_REPR = 10


def row_identity(row: Iterable[Value]) -> tuple[object, ...]:
    """A key that two rows share exactly when they hold the same constants."""
    return tuple(identity(value) for value in row)


class Encoded(NamedTuple):
    """Rows of term numbers, and the table that says what they mean: another table may say otherwise."""

    cells: Cells
    terms: TermTable

    def rows(self) -> Iterator[Row]:
        if not self.cells.shape[1]:
            return iter([()] * len(self.cells))
        return iter(zip(*map(self.terms.decode_column, self.cells.T), strict=True))


class Table(PlainData, ABC):
    """Rows of term numbers with names for their columns. Terminals and notebooks show the first rows."""

    __slots__ = ()

    @abstractmethod
    def _encoded(self, most: int | None = None) -> Encoded:
        """All rows, or the first ones; the others are not looked at then."""

    def _names(self, cells: Cells) -> Sequence[str]:
        """The names of the columns of rows that have just been read: the predicate may be newer than this view."""
        return [f"c{column}" for column in range(cells.shape[1])]

    def __len__(self) -> int:
        return len(self._encoded().cells)

    def _shown(self) -> tuple[str, list[str], list[list[str]], str]:
        """A table of the first rows: title, columns, rows, caption."""
        encoded = self._encoded(MOST_ROWS)
        first = [[render_value(value) for value in row] for row in encoded.rows()]
        count = len(self)
        title = f"{count:,} {'row' if count == 1 else 'rows'}"
        return title, list(self._names(encoded.cells)), first, more_text(count, len(first))

    def __rich__(self) -> Any:
        return rich_table(*self._shown())

    def _repr_html_(self) -> str:
        return html_table(*self._shown())

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as mappings from column to value, of plain data for JSON: IRIs are `{"iri": …}`."""
        encoded = self._encoded()
        names = self._names(encoded.cells)
        return [dict(zip(names, map(value_to_json, row), strict=True)) for row in encoded.rows()]

    def keys(self) -> NoReturn:
        """Refuse to become a `dict`, which would take the first two values of each row for a key and its value. A web
        framework that does not know this class tries that first.
        """
        kind = type(self).__name__
        raise TypeError(f"{kind} are rows and no mapping; use `.to_dicts()`, or let the return type be tidelog.{kind}")

    _plain_type = list[dict[str, Any]]

    def _plain(self) -> list[dict[str, Any]]:
        return self.to_dicts()

    def to_arrow(self) -> pa.Table:
        """An Arrow table; a column of several kinds, or of IRIs, is a dense union named after the kinds."""
        with needing("to_arrow"):
            from tidelog.facts.frames import arrow_table

        return arrow_table(*self._named())

    def to_pandas(self) -> Any:
        """A pandas DataFrame; mixed columns and IRIs are Python objects."""
        with needing("to_pandas"):
            from tidelog.facts.frames import pandas_frame

            return pandas_frame(*self._named())

    def to_polars(self) -> Any:
        """A Polars DataFrame; mixed columns and IRIs are Python objects."""
        with needing("to_polars"):
            from tidelog.facts.frames import polars_frame

            return polars_frame(*self._named())

    def _named(self) -> tuple[Sequence[str], Encoded]:
        encoded = self._encoded()
        return self._names(encoded.cells), encoded


class FactTable(Table, Set[Row]):
    """The facts of one predicate, as a set of tuples. It equals any set, list or tuple of the same rows, in any order;
    constants of different types are different.
    """

    __slots__ = ()

    @abstractmethod
    def _keys(self) -> frozenset[object]:
        """Keys of all rows, see `row_identity`."""

    def __iter__(self) -> Iterator[Row]:
        return self._encoded().rows()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FactTable):
            return self._keys() == other._keys()
        if isinstance(other, Set | list | tuple):
            keys = self._keys()
            return len(keys) == len(other) and keys == {row_identity(row) for row in other if isinstance(row, tuple)}
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def _from_iterable(cls, rows: Iterable[Any]) -> Any:
        # Set operations give plain Python sets.
        return set(rows)

    def __repr__(self) -> str:
        return f"{{{_listed(map(repr, self._encoded(MOST_IN_REPR).rows()), len(self) > MOST_IN_REPR)}}}"


class FactSet(FactTable):
    """A set of facts that stays as it is.

    Examples:
        >>> change = tidelog.KnowledgeBase().update(add={"edge": [("a", "b"), ("b", "c")]})
        >>> edges = change.added["edge"]
        >>> edges == {("a", "b"), ("b", "c")}, ("a", "b") in edges, len(edges)
        (True, True, 2)
    """

    __slots__ = ("__weakref__", "_columns", "_known", "_rows", "_terms")

    def __init__(self, terms: TermTable, rows: Rows, columns: Sequence[str] = ()) -> None:
        self._terms = terms
        self._rows = rows
        self._columns = columns
        self._known: frozenset[object] | None = None

    def _encoded(self, most: int | None = None) -> Encoded:
        return Encoded(self._rows.read() if most is None else self._rows.first(most), self._terms)

    def _names(self, cells: Cells) -> Sequence[str]:
        return self._columns or super()._names(cells)

    def __len__(self) -> int:
        return self._rows.count

    def _keys(self) -> frozenset[object]:
        if self._known is None:
            self._known = frozenset(row_identity(row) for row in self)
        return self._known

    def __contains__(self, row: object) -> bool:
        return isinstance(row, tuple | list) and row_identity(row) in self._keys()


class Answers(Table, Sequence[dict[str, Value]]):
    """The answers of a query: mappings from variable to value, in the order of the query's variables. `errors` tells of
    the matches that failed because an expression had no value.

    Examples:
        >>> kb = tidelog.KnowledgeBase("age(ada, 36). age(bob, 17).")
        >>> answers = kb.query("age(Who, N)")
        >>> answers.variables, sorted(answers.rows())
        (('Who', 'N'), [('ada', 36), ('bob', 17)])
        >>> [answer["Who"] for answer in answers if answer["N"] > 18]
        ['ada']
    """

    __slots__ = ("__weakref__", "_source", "_terms", "_variables", "errors")

    def __init__(self, names: Sequence[str], rows: Encoded, errors: Failures = NO_FAILURES) -> None:
        self._variables = tuple(names)
        self._source = Rows.of(rows.cells)
        self._terms = rows.terms
        self.errors = errors

    @classmethod
    def read_later(cls, names: tuple[str, ...], rows: Rows, terms: TermTable) -> Self:
        """Answers that are read when somebody looks at them."""
        answers = cls.__new__(cls)
        answers._variables, answers._source, answers._terms, answers.errors = names, rows, terms, NO_FAILURES
        return answers

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of the query, in the order of its text.

        Examples:
            >>> tidelog.KnowledgeBase("age(ada, 36).").query("age(Who, N)").variables
            ('Who', 'N')
        """
        return self._variables

    def _names(self, cells: Cells) -> Sequence[str]:
        return self._variables

    def _encoded(self, most: int | None = None) -> Encoded:
        return Encoded(self._source.read() if most is None else self._source.first(most), self._terms)

    def __len__(self) -> int:
        return self._source.count

    def rows(self) -> list[Row]:
        """The answers as tuples."""
        return list(self._encoded().rows())

    def __iter__(self) -> Iterator[dict[str, Value]]:
        return (dict(zip(self._variables, row, strict=True)) for row in self._encoded().rows())

    def __eq__(self, other: object) -> bool:
        """Whether another sequence has the same answers in the same order, each a mapping from variable to value."""
        if not isinstance(other, Answers | list | tuple):
            return NotImplemented
        return len(self) == len(other) and all(map(_same_answer, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, place: Any) -> Any:
        cells, terms = self._encoded()
        if isinstance(place, slice):
            return Answers(self._variables, Encoded(cells[place], terms))
        row = [terms.decode(int(term)) for term in cells[place]]
        return dict(zip(self._variables, row, strict=True))

    def __repr__(self) -> str:
        first = Answers(self._variables, self._encoded(MOST_IN_REPR))
        return f"[{_listed(map(repr, first), len(self) > MOST_IN_REPR)}]"


def _same_answer(answer: Mapping[str, Value], other: object) -> bool:
    if not isinstance(other, Mapping) or answer.keys() != other.keys():
        return False
    return all(identity(value) == identity(other[name]) for name, value in answer.items())


def _listed(texts: Iterable[str], more: bool) -> str:
    return ", ".join([*texts, "…"] if more else texts)


class Origin(Protocol):
    """The update that made a change, or would make it."""

    def explain(self, change: Change, fact: str) -> ChangeProof | None:
        """Why a fact came or went."""

    def after(self, others: Iterable[Any]) -> Origin:
        """The same for several updates at once, of which this one is the last."""


@dataclass(frozen=True)
class Change(PlainData):
    """What an update did: the facts that appeared in I and those that vanished, by predicate, the work it took, and the
    rule instances that failed because an expression had no value.

    Examples:
        >>> kb = tidelog.KnowledgeBase("path(X, Y) :- edge(X, Y).")
        >>> change = kb.update(add={"edge": [("a", "b")]})
        >>> print(change)
        + edge: 1
        + path: 1
        >>> change.added["path"], bool(change), change.work["insertion"]
        ({('a', 'b')}, True, 1)
    """

    added: Mapping[str, FactSet] = field(default_factory=dict)
    removed: Mapping[str, FactSet] = field(default_factory=dict)
    work: Mapping[str, int] = field(default_factory=dict)
    errors: Failures = NO_FAILURES
    trace: Trace | None = None
    _origin: Origin | None = field(default=None, repr=False, compare=False)

    def explain(self, fact: str) -> ChangeProof | None:
        """Why a fact such as `"path(a, c)"` came or went; None if it did neither. Only the last change of a knowledge
        base can be explained, and what `what_if` gave for the state that it has.
        """
        if self._origin is None:
            raise TidelogError("this change does not know the update that made it, and cannot be explained")
        return self._origin.explain(self, fact)

    def to_dict(self) -> dict[str, Any]:
        """The change as plain data for JSON: rows by predicate, work by kind, failures and the first of them."""
        halves = {"added": json_facts(self.added), "removed": json_facts(self.removed)}
        failures = {"errors": int(self.errors), "failures": [failure.to_dict() for failure in self.errors.first]}
        return {**halves, "work": dict(self.work), **failures}

    _plain_type = dict[str, Any]

    def _plain(self) -> dict[str, Any]:
        return self.to_dict()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)

    def __str__(self) -> str:
        lines = []
        for sign, facts in (("+", self.added), ("-", self.removed)):
            for name, rows in facts.items():
                lines.append(f"{sign} {name}: {len(rows):,}")
        return "\n".join(lines) or "no change"

    def __repr__(self) -> str:
        return f"<Change: {', '.join(str(self).splitlines())}>"

    def _shown(self) -> tuple[str, list[str], list[list[str | int]], str]:
        rows: list[list[str | int]] = []
        for sign, facts in (("+", self.added), ("-", self.removed)):
            for name, changed in facts.items():
                first = map(row_text, changed._encoded(MOST_EXAMPLES).rows())
                rows.append([sign, name, len(changed), _listed(first, len(changed) > MOST_EXAMPLES)])
        work = ", ".join(f"{kind} {count:,}" for kind, count in self.work.items() if count)
        return "change", ["", "predicate", "facts", "such as"], rows, f"rule applications: {work}" if work else ""

    def __rich__(self) -> Any:
        return rich_table(*self._shown()) if self else "no change"

    def _repr_html_(self) -> str:
        if not self:
            return "no change"
        names = dict.fromkeys((*self.added, *self.removed))
        came_and_went = [(name, len(self.added.get(name, ())), len(self.removed.get(name, ()))) for name in names]
        return change_bars(came_and_went) + html_table(*self._shown())
