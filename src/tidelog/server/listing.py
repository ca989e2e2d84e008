"""Facts, answers and changes as plain data: what JSON bodies and events hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

from tidelog.facts.results import Answers, Change, Encoded, FactSet
from tidelog.formats.files.jsonl import value_to_json
from tidelog.values import Row

JsonRow = list[Any]

_PLAIN = frozenset((str, int, bool))


# What stands in texts as it is, and what many readers take for the end of a line, Python's `splitlines` among them.
_ENDS = tuple((end.encode(), f"\\u{ord(end):04x}".encode()) for end in "\x85\u2028\u2029")


def without_ends(json: bytes) -> bytes:
    """JSON in which no text ends a line for any reader."""
    for end, escaped in _ENDS:
        json = json.replace(end, escaped)
    return json


def json_row(row: Row) -> JsonRow:
    """A row as JSON has it."""
    return [value if type(value) in _PLAIN else value_to_json(value) for value in row]


def json_rows(rows: Iterable[Row]) -> list[JsonRow]:
    return list(map(json_row, rows))


def rows_of(answers: Answers) -> list[JsonRow]:
    """All answers."""
    return json_rows(answers._encoded().rows()) if len(answers) else []


def encoded_rows(encoded: Encoded) -> list[JsonRow]:
    return json_rows(encoded.rows())


def listed_change(change: Change, most: int, readable: Set[str] | None = None) -> dict[str, Any]:
    """A change with the numbers of its facts, and the first ones of each predicate. Who may read some predicates alone,
    named as they are displayed, sees these, and nothing of what was done for others.
    """
    all = readable is None
    return {
        "added": listed_facts(change.added, most, readable),
        "removed": listed_facts(change.removed, most, readable),
        "work": {kind: count for kind, count in change.work.items() if count and all},
        "errors": int(change.errors) if all else 0,
        "failures": [failure.to_dict() for failure in change.errors.first if all],
    }


def listed_facts(facts: Mapping[str, FactSet], most: int, readable: Set[str] | None) -> dict[str, Any]:
    return {
        name: {"count": len(rows), "rows": json_rows(rows._encoded(most).rows()) if most else []}
        for name, rows in facts.items()
        if readable is None or name in readable
    }
