"""Facts, answers and changes as plain data: what JSON bodies and events hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidelog.facts.results import Answers, Change, Encoded, FactSet
from tidelog.formats.jsonl import value_to_json
from tidelog.values import Row

JsonRow = list[Any]

_PLAIN = frozenset((str, int, bool))


def json_row(row: Row) -> JsonRow:
    """A row as JSON has it."""
    return [value if type(value) in _PLAIN else value_to_json(value) for value in row]


def json_rows(rows: Iterable[Row]) -> list[JsonRow]:
    return list(map(json_row, rows))


def rows_of(answers: Answers) -> list[JsonRow]:
    """All answers."""
    return json_rows(answers._encoded().rows())


def encoded_rows(encoded: Encoded) -> list[JsonRow]:
    return json_rows(encoded.rows())


def listed_change(change: Change, most: int) -> dict[str, Any]:
    """A change with the numbers of its facts, and the first ones of each predicate."""
    return {
        "added": listed_facts(change.added, most),
        "removed": listed_facts(change.removed, most),
        "work": {kind: count for kind, count in change.work.items() if count},
        "errors": int(change.errors),
        "failures": [failure.to_dict() for failure in change.errors.first],
    }


def listed_facts(facts: Mapping[str, FactSet], most: int) -> dict[str, Any]:
    return {
        name: {"count": len(rows), "rows": json_rows(rows._encoded(most).rows()) if most else []}
        for name, rows in facts.items()
    }
