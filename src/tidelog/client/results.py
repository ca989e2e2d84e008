"""What a server answers, as Python values: answers, facts of a change, changes of answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tidelog.api.statistics import RuleStatistics
from tidelog.client.refusals import Remote
from tidelog.client.tables import encoded
from tidelog.facts.results import Encoded, Table
from tidelog.formats.files.jsonl import row_from_json
from tidelog.store.relation_parts import Cells
from tidelog.values import Row, Value


class RemoteAnswers(Table, Sequence[dict[str, Value]]):
    """The answers of a query: mappings from variable to value. `update` is the number of the last update in them."""

    def __init__(self, variables: Sequence[str], rows: Iterable[Row], update: int = 0, errors: int = 0) -> None:
        self.variables = tuple(variables)
        self.update = update
        self.errors = errors
        self._rows = list(rows)

    def rows(self) -> list[Row]:
        """The answers as tuples."""
        return list(self._rows)

    def _encoded(self, most: int | None = None) -> Encoded:
        return encoded(self._rows[:most], len(self.variables))

    def _names(self, cells: Cells) -> Sequence[str]:
        return self.variables

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return RemoteAnswers(self.variables, self._rows[place], self.update)
        return dict(zip(self.variables, self._rows[place], strict=True))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Sequence)
            and len(self) == len(other)
            and all(a == b for a, b in zip(self, other, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))


class SomeFacts(Sequence[Row]):
    """Facts of a change: `len` counts all, and as many are listed as were asked for."""

    def __init__(self, total: int, rows: Iterable[Row]) -> None:
        self.total = total
        self._rows = tuple(rows)

    def __len__(self) -> int:
        return self.total

    def __iter__(self) -> Any:
        return iter(self._rows)

    def __getitem__(self, place: Any) -> Any:
        return self._rows[place]

    def __contains__(self, row: object) -> bool:
        return row in self._rows

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SomeFacts):
            return self.total == other.total and set(self._rows) == set(other._rows)
        return (
            isinstance(other, set | frozenset | list | tuple) and self.total == len(other) and set(self) == set(other)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{{{', '.join(map(repr, self._rows))}{', …' if self.total > len(self._rows) else ''}}}"


@dataclass(frozen=True)
class RemoteChange(Remote):
    """What an update did. `update` is its number, and `together` how many updates its commit has: the change is that
    of all of them. A `repeated` update was made before, and has changed nothing now.
    """

    update: int
    added: Mapping[str, SomeFacts]
    removed: Mapping[str, SomeFacts]
    work: Mapping[str, int] = field(default_factory=dict)
    errors: int = 0
    together: int = 1
    repeated: bool = False

    instead: ClassVar[Mapping[str, str]] = {
        "explain": "`POST /explain-change` of the server says why a fact came or went; `explain` and `why_not` of the "
        "connection say why it holds now, or does not",
        "trace": "traces are of knowledge bases that are here",
    }

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> RemoteChange:
        change = answer["change"]
        return cls(
            answer["update"],
            _facts(change["added"]),
            _facts(change["removed"]),
            change["work"],
            change["errors"],
            answer.get("together", 1),
            answer.get("repeated", False),
        )

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)

    def __str__(self) -> str:
        halves = (("+", self.added), ("-", self.removed))
        lines = [f"{sign} {name}: {len(rows):,}" for sign, facts in halves for name, rows in facts.items()]
        return "\n".join(lines) or "no change"

    def __repr__(self) -> str:
        return f"<Change: {', '.join(str(self).splitlines())}>"


def _facts(side: Mapping[str, Any]) -> dict[str, SomeFacts]:
    return {name: SomeFacts(item["count"], map(row_from_json, item["rows"])) for name, item in side.items()}


@dataclass(frozen=True)
class RemoteAnswerChange:
    """What updates did to the answers of a query, up to the one with the number `update`. The `first` message has the
    answers at its beginning in `added`.
    """

    update: int
    added: RemoteAnswers
    removed: RemoteAnswers
    first: bool = False

    def __repr__(self) -> str:
        return f"<AnswerChange: update {self.update}, + {len(self.added):,}, - {len(self.removed):,}>"


@dataclass(frozen=True)
class RemoteRule(RuleStatistics):
    """A rule, with what it has done so far."""

    number: int = 0

    def __str__(self) -> str:
        return self.rule
